"""One run, one process: a lock that the system drops when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

try:
    import fcntl as system
except ModuleNotFoundError:  # Windows has none; there, start one study a folder
    system = None  # type: ignore[assignment]


class Busy(Exception):
    """Another process computes this run."""


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[None]:
    """Hold the lock of a file; Busy where another process has it, unless we should wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            _take(file, wait)
        except BlockingIOError:
            raise Busy(str(path)) from None
        yield


def _take(file: IO[str], wait: bool) -> None:
    lock: Any = system
    if lock is not None:
        lock.flock(file, lock.LOCK_EX | (0 if wait else lock.LOCK_NB))
