"""What a page opens with: for every run and group whether it was learned, in words, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..evaluation import EVALUATIONS, Result
from ..evaluation.verdict import Level, Verdict, explain, headline, judge
from .cause import find_cause
from .gathering import Run

FIRST = ("recovery", "spectrum")
"""The evaluations whose verdict stands for a group, the first that there is."""
INSTEAD = "classification"
"""Whose verdict stands for a run that has neither."""


class Line(NamedTuple):
    """One line: of which run, how far it was learned (nothing if that is not known), in words, and the cause."""

    place: int
    level: str
    head: str
    text: str
    cause: str = ""


def open_with(runs: Sequence[Run]) -> list[Line]:
    """A line for every run and group."""
    return [line for place, run in enumerate(runs) for line in _lines(place, run)]


def verdict_of(result: Result) -> Verdict | None:
    """The verdict on a result; None as well where a stranger's numbers do not allow one."""
    try:
        return judge(result)
    except Exception:  # a stranger's numbers can fail anywhere
        return None


def _lines(place: int, run: Run) -> list[Line]:
    if run.unfinished:
        return [Line(place, "", "Not finished", "The run has no model yet.")]
    if not run.results:
        return [Line(place, "", "Not measured", "There are no results to show yet.")]
    lines: list[Line] = []
    for result in _judged(run):
        verdict = verdict_of(result)
        if verdict is not None:
            cause = "" if verdict.level is Level.LEARNED else find_cause(run, result, verdict)
            cause = "" if any(cause == line.cause for line in lines) else cause  # once is enough
            lines.append(Line(place, verdict.level.name.lower(), headline(verdict), explain(verdict), cause))
    return lines


def _judged(run: Run) -> list[Result]:
    """The result that stands for each group, the first group first; of a run without any, that for its classes."""
    suffixes = dict.fromkeys(name.partition("-")[1:] for name in run.results)
    found = [
        next((run.results[name] for first in FIRST if (name := first + "".join(suffix)) in run.results), None)
        for suffix in sorted(suffixes, key=lambda suffix: suffix != ("", ""))
    ]
    known = [result for result in found if result is not None]
    instead = run.results.get(INSTEAD) if INSTEAD in EVALUATIONS else None
    return known or ([] if instead is None else [instead])
