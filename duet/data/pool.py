"""Work on many items in order: by the caller while they are quick, by a thread for each core when they are slow."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from .cores import available_cores

AHEAD = 64
"""Items that are begun before they are asked for."""
QUICK = 0.75e-3
"""Seconds of an item below which threads cost more than they bring: they queue for the interpreter."""
TRIED, TRIAL = 64, 0.1
"""It is judged by the median of so many items, or of those that take so many seconds in all."""
AGAIN = 1024
"""Items that threads take before it is tried again without them."""

S = TypeVar("S")
T = TypeVar("T")


class Pool:
    """Tries with the caller's own thread whether items are quick; where they are not, threads take the next ones."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._threaded = 0  # items that go to threads before the next trial

    def map(self, work: Callable[[S], T], items: Iterable[S], ahead: int = AHEAD) -> Iterator[T]:
        """`work` on every item, results in order, at most `ahead` of them waiting."""
        them = iter(items)
        while True:
            if self._threaded:
                yield from _by_threads(work, self._counted(them), ahead)
            for item in them:
                start = time.perf_counter()
                result = work(item)
                self._judge(time.perf_counter() - start)
                yield result
                if self._threaded:
                    break
            else:
                return

    def _judge(self, seconds: float) -> None:
        self._times.append(seconds)
        if len(self._times) >= TRIED or sum(self._times) > TRIAL:
            self._threaded = AGAIN if statistics.median(self._times) > QUICK else 0
            self._times.clear()

    def _counted(self, items: Iterator[S]) -> Iterator[S]:
        """Those that threads take."""
        for item in islice(items, self._threaded):
            self._threaded -= 1
            yield item


def _by_threads(work: Callable[[S], T], items: Iterator[S], ahead: int) -> Iterator[T]:
    # Pillow lets go of the interpreter while it decodes and resizes, torch while it computes.
    pool = ThreadPoolExecutor(available_cores())
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, the last one perhaps shorter."""
    them = iter(items)
    while part := list(islice(them, size)):
        yield part
