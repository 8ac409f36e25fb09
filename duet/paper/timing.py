"""Time and memory of functions, side by side in one run."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.profiler import ProfilerActivity, profile


def times(
    functions: Mapping[str, Callable[[], Any]], repeats: int = 15, warm: int = 3, block: int = 5
) -> dict[str, list[float]]:
    """Seconds of every function, in alternating blocks of calls, so that a slow moment of the machine strikes all.

    The first call of a block is not counted: it would pay for the caches and the memory that the other left behind,
    which neither meets in its own use.
    """
    for function in functions.values():
        for _ in range(warm):
            function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    while min(map(len, seconds.values())) < repeats:
        for name, function in functions.items():
            function()
            for _ in range(block):
                start = time.perf_counter()
                function()
                seconds[name].append(time.perf_counter() - start)
    return seconds


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The median of every function's seconds."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_bytes(function: Callable[[], Any]) -> int:
    """The most that torch's CPU allocator held at once during a call, above what it held before."""
    gc.collect()
    with _quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = function()
    del result
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    held = peak = 0
    for event in events:
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler's own remarks off the terminal: they come from C++, past Python's stderr."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
