"""Progress with the time left: a bar that keeps quiet unless the work turns out to be long, and bars for a suite."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

T = TypeVar("T")
PATIENCE = 3.0
_shown: ContextVar[bool] = ContextVar("shown", default=True)
Track = Callable[[Iterable[T], int, str], Iterable[T]]
"""Passes the parts of a loop through: (parts, how many, what they are) -> the parts."""


def new_progress(
    *columns: ProgressColumn, console: Console | None = None, show: bool = True, **options: Any
) -> Progress:
    """Bars on standard error, and only where somebody watches."""
    console = console or Console(stderr=True)
    return Progress(*columns, console=console, disable=not (show and console.is_terminal and _shown.get()), **options)


def wants_lines(console: Console | None = None) -> bool:
    """Whether lines take the place of bars: nobody watches a terminal, and nobody further out shows progress."""
    console = console or Console(stderr=True)
    return not console.is_terminal and _shown.get()


@contextmanager
def without_bars() -> Iterator[None]:
    """No new bars inside: somebody further out shows one for all."""
    before = _shown.set(False)
    try:
        yield
    finally:
        _shown.reset(before)


def track(
    parts: Iterable[tuple[int, T]],
    total: int | None,
    label: str,
    console: Console | None = None,
    unit: str | None = None,
) -> Iterator[T]:
    """Pass (size, part) pairs through; after PATIENCE seconds show how much of `total` is done and the time left.

    With a `unit`, such as images, also how many of them are done, and how many a second.
    """
    columns = list(Progress.get_default_columns())
    if unit is not None:
        columns[-1:] = [MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), columns[-1]]
    progress = new_progress(*columns, console=console, transient=True)
    began, done = time.monotonic(), 0
    task = progress.add_task(label, total=total, rate="")
    try:
        for size, part in parts:
            yield part
            done += size
            if time.monotonic() - began > PATIENCE:
                progress.start()
                rate = "" if unit is None else f"{done / (time.monotonic() - began):.0f} {unit}/s"
                progress.update(task, completed=done, rate=rate)
    finally:
        progress.stop()


def with_bar(parts: Iterable[T], total: int, label: str) -> Iterable[T]:
    """The parts of a loop, with a bar once it takes long."""
    return track(((1, part) for part in parts), total, label)


def without_bar(parts: Iterable[T], total: int, label: str) -> Iterable[T]:
    """The parts of a loop, with nothing shown."""
    return parts


class Bars:
    """One bar over a list of jobs and one inside the present job, both with the time left."""

    def __init__(self, total: int, label: str, show: bool = True) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = new_progress(*columns, transient=True, show=show)
        self._show = show
        self._all = self._progress.add_task(label, total=total)

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """Name the job that runs now."""
        self._progress.update(self._all, description=name)

    def end(self, jobs: int = 1) -> None:
        """One job more is done, or several."""
        self._progress.advance(self._all, jobs)

    def say(self, text: str) -> None:
        """A line above the bars."""
        if self._show:
            self._progress.console.print(text, highlight=False)

    def track(self, parts: Iterable[T], total: int, label: str) -> Iterator[T]:
        """Pass the parts of a loop through its own bar."""
        task = self._progress.add_task(label, total=total)
        try:
            for part in parts:
                yield part
                self._progress.advance(task)
        finally:
            self._progress.remove_task(task)
