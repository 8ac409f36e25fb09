"""Other ways to be stopped than Ctrl-C, treated alike: what is open is closed, what is temporary is removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = ("SIGTERM", "SIGHUP")  # of `kill`, and of a terminal that is closed; Windows has no SIGHUP


@contextmanager
def stopped_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt while the block runs, unless the user had them ignored (nohup)."""
    known = [number for name in STOPPING if (number := getattr(signal, name, None)) is not None]
    if threading.current_thread() is not threading.main_thread():
        known = []
    before = {number: handler for number in known if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """No such signal, nor Ctrl-C, stops the block: for what must be done before the end."""
    known = [signal.SIGINT, *(number for name in STOPPING if (number := getattr(signal, name, None)) is not None)]
    if threading.current_thread() is not threading.main_thread():
        known = []
    before = {number: signal.signal(number, signal.SIG_IGN) for number in known}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
