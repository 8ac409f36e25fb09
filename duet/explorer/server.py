"""An application, served to this machine from a thread until it is no longer needed."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..error import DuetError
from .guard import Guard

HOST = "127.0.0.1"
PORTS = range(7860, 7960)
PATIENCE = 5.0


@contextmanager
def served(guard: Guard, port: int | None = None) -> Iterator[str]:
    """Serve an application while the block runs; its address."""
    import uvicorn

    with _bind(port) as listening:
        config = uvicorn.Config(
            guard,
            log_config=None,
            log_level="warning",
            access_log=False,
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        with _one_line_each("uvicorn.error", "asyncio", "python_multipart.multipart"):
            thread.start()
            _wait_for(server, thread)
            try:
                yield f"http://{HOST}:{listening.getsockname()[1]}/"
            finally:
                server.should_exit = True
                guard.close()
                thread.join(PATIENCE)


def _bind(port: int | None) -> socket.socket:
    """A socket on this machine's own address: at this port, or at the first that is free."""
    for candidate in PORTS if port is None else [port]:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, candidate))
            listening.listen()
            return listening
        except OSError:
            listening.close()
    where = f"{PORTS[0]} to {PORTS[-1]} are" if port is None else f"{port} is"
    raise DuetError(f"port {where} not free; choose another with --port")


def _wait_for(server: Any, thread: threading.Thread) -> None:
    while not server.started:
        if not thread.is_alive():
            raise DuetError("the page could not be served; the lines above say why")
        time.sleep(0.01)


@contextmanager
def _one_line_each(*names: str) -> Iterator[None]:
    """The server's own complaints about junk: a line, and never a traceback."""
    for name in names:
        logging.getLogger(name).addFilter(_shorten)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeFilter(_shorten)


def _shorten(record: logging.LogRecord) -> bool:
    """Cut a record to its first line. What the guard answers has its own: uploads, and upgrades to web sockets."""
    lines = record.getMessage().splitlines()
    record.msg, record.args, record.exc_info = lines[0] if lines else "", None, None
    said = ("upgrade request" in record.msg, "WebSocket library" in record.msg, record.name.startswith("python_multi"))
    return not any(said)
