"""A progress bar that keeps quiet unless the work turns out to be long."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")
PATIENCE = 3.0


def track(parts: Iterable[tuple[int, T]], total: int | None, label: str, console: Console | None = None) -> Iterator[T]:
    """Pass (size, part) pairs through; after PATIENCE seconds show how much of `total` is done and the time left."""
    console = console or Console(stderr=True)
    progress = Progress(console=console, transient=True, disable=not console.is_terminal)
    began, done = time.monotonic(), 0
    task = progress.add_task(label, total=total)
    try:
        for size, part in parts:
            yield part
            done += size
            if time.monotonic() - began > PATIENCE:
                progress.start()
                progress.update(task, completed=done)
    finally:
        progress.stop()
