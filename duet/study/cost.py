"""What a run takes, learned from those that are finished."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from .plan import Run
from .record import LATER, Record

ALIKE: tuple[tuple[str, ...], ...] = (
    ("method", "options", "data", "subset", "encoder", "trunk", "image_size", "stack", "batch_size", "group"),
    ("method", "data", "subset", "encoder", "trunk", "image_size", "stack"),
    ("data", "subset", "encoder", "trunk", "image_size"),
    (),
)
"""Settings that decide the time of an epoch; where no finished run has the same, fewer are compared."""


def expected_seconds(run: Run, records: Sequence[Record], trained: bool = False) -> float | None:
    """The seconds that a run will take, as those most like it did; None before any is finished.

    Of a run that is trained only the evaluation is left: what it took where it came later, if that is known.
    """
    asked = run.experiment.to_dict()
    whole = [record for record in records if record.whole and record.seconds.get("train")]
    later = [record for record in records if LATER in record.seconds] if trained else []
    for keys in ALIKE:
        alike = [r for r in later or whole if all(r.settings.get(key) == asked[key] for key in keys)]
        if alike and trained:
            return _mean(record.seconds.get(LATER, record.seconds.get("evaluate", 0.0)) for record in alike)
        if alike:
            epoch = _mean(record.seconds["train"] / max(1, record.settings["epochs"]) for record in alike)
            return epoch * run.experiment.epochs + _mean(record.seconds.get("evaluate", 0.0) for record in alike)
    return None


def seconds_left(
    runs: Iterable[Run], records: Sequence[Record], jobs: int = 1, trained: Collection[str] = ()
) -> float | None:
    """The seconds that runs will take together, so many at a time; None before any is finished.

    `trained`: the keys of those whose training is over.
    """
    expected = [expected_seconds(run, records, run.key in trained) for run in runs]
    known = [seconds for seconds in expected if seconds is not None]
    if len(known) < len(expected):
        return None
    return max(math.fsum(known) / jobs, max(known, default=0.0))


def say_seconds(seconds: float | None) -> str:
    """Seconds in words: 40 s, 12 min, 3 h 20 min, 2 d 4 h."""
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)
