"""A claim of the paper as data, and the rule by which records of runs decide it: written down before the runs.

Every comparison is of two numbers, the first above the second, or both near each other. Over two seeds or more it is
paired: the mean of the differences, and its standard error. With one seed the error follows from the 95 % intervals
over the test images. A difference counts where it exceeds twice its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Any, NamedTuple

from ..error import DuetError
from ..methods import find_method
from ..training.experiment import Experiment

TIMES = 2.0  # standard errors that a difference must exceed
NORMAL = 2 * 1.96  # standard errors in a 95 % interval
Plain = Mapping[str, Any]
"""A record of a run: `settings` (keys of Experiment), `scalars` (EVALUATION/SCALAR) and their `intervals`."""


class Outcome(str, Enum):
    """What the runs say of a claim."""

    HOLDS = "holds"
    REVERSED = "reversed"
    NOT_SEPARABLE = "not separable at this scale"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Cell:
    """A scalar of the runs with these settings, one a seed; what is not named is as `Experiment` has it."""

    scalar: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Above:
    """The first is above the second `factor` times; it is reversed where it is below the second itself.

    `exact`: a number that does not depend on the draw of test images, judged as it is where there is one seed.
    """

    label: str
    first: Cell
    second: Cell | float
    factor: float = 1.0
    exact: bool = False

    def decide(self, pairs: Sequence[tuple[float, float]], error: float | None) -> Outcome:
        """By the differences of both bounds; `error` is that of one pair alone."""
        high, low = ([a - factor * b for a, b in pairs] for factor in (self.factor, 1.0))
        above, below = (_standard_error(own, error) for own in (high, low))
        if above is None or below is None:
            return Outcome.NOT_SEPARABLE
        if fmean(high) > TIMES * above:
            return Outcome.HOLDS
        return Outcome.REVERSED if -fmean(low) > TIMES * below else Outcome.NOT_SEPARABLE


@dataclass(frozen=True)
class Near:
    """Both differ by less than `within`; it is reversed where they surely differ by more."""

    label: str
    first: Cell
    second: Cell | float
    within: float
    exact: bool = False

    def decide(self, pairs: Sequence[tuple[float, float]], error: float | None) -> Outcome:
        """By the difference and its error."""
        differences = [a - b for a, b in pairs]
        wide = _standard_error(differences, error)
        if wide is None:
            return Outcome.NOT_SEPARABLE
        if abs(fmean(differences)) + TIMES * wide < self.within:
            return Outcome.HOLDS
        return Outcome.REVERSED if abs(fmean(differences)) - TIMES * wide > self.within else Outcome.NOT_SEPARABLE


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its number there, what decides it, and the command that computes the runs.

    `proof` names the test that decides a claim about mathematics, which no run could.
    """

    name: str
    text: str
    paper: str
    comparisons: tuple[Above | Near, ...] = ()
    command: str = ""
    percent: bool = True
    proof: str = ""


class Finding(NamedTuple):
    """One comparison: the seeds that both have, the values (first, second) of each, the error, the outcome."""

    label: str
    seeds: tuple[int, ...]
    pairs: tuple[tuple[float, float], ...]
    error: float | None
    outcome: Outcome


class Verdict(NamedTuple):
    """The outcome of a claim, and that of every comparison."""

    outcome: Outcome
    findings: tuple[Finding, ...]


def judge(claim: Claim, records: Iterable[Plain]) -> Verdict:
    """What the records say: reversed if one comparison is, not separable if one is, and it holds only if all hold.

    Where the others hold and some have no runs yet, it is not tested. A claim with a proof holds, as long as its test
    does.
    """
    if claim.proof:
        return Verdict(Outcome.HOLDS, ())
    known = list(records)
    findings = tuple(_find(comparison, known) for comparison in claim.comparisons)
    found = {finding.outcome for finding in findings}
    weakest = (Outcome.REVERSED, Outcome.NOT_SEPARABLE, Outcome.NOT_TESTED)
    return Verdict(next((outcome for outcome in weakest if outcome in found), Outcome.HOLDS), findings)


def _find(comparison: Above | Near, records: Sequence[Plain]) -> Finding:
    first = _by_seed(comparison.first, records)
    second = comparison.second
    others = dict.fromkeys(first, (second, 0.0)) if isinstance(second, float) else _by_seed(second, records)
    seeds = tuple(sorted(set(first) & set(others)))
    if not seeds:
        return Finding(comparison.label, (), (), None, Outcome.NOT_TESTED)
    pairs = tuple((first[seed][0], others[seed][0]) for seed in seeds)
    errors = (first[seeds[0]][1], others[seeds[0]][1])
    alone = None if None in errors else math.hypot(*(error or 0.0 for error in errors))
    alone = 0.0 if comparison.exact else alone
    error = _standard_error([a - b for a, b in pairs], alone)
    return Finding(comparison.label, seeds, pairs, error, comparison.decide(pairs, alone))


def _standard_error(differences: Sequence[float], alone: float | None) -> float | None:
    """Of the mean of paired differences; of one alone, what is known of it by other means."""
    if len(differences) < 2:
        return alone
    return stdev(differences) / math.sqrt(len(differences))


def _by_seed(cell: Cell, records: Sequence[Plain]) -> dict[int, tuple[float, float | None]]:
    """The value of a cell and its error over test images, if it is known, for every seed."""
    found: dict[int, tuple[float, float | None]] = {}
    for record in records:
        value = record["scalars"].get(cell.scalar)
        if value is None or not math.isfinite(value) or not _fits(record["settings"], cell.settings):
            continue
        seed = int(record["settings"].get("seed", 0))
        ends = record.get("intervals", {}).get(cell.scalar)
        entry = (float(value), None if ends is None else (ends[1] - ends[0]) / NORMAL)
        if seed in found and found[seed] != entry:
            what = ", ".join(f"{key} {shown}" for key, shown in cell.settings.items() if shown not in (None, {}))
            raise DuetError(
                f"two different runs of {what}, seed {seed}: judge one study, and one set of images, at a time"
            )
        found[seed] = entry
    return found


def _fits(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    method = settings.get("method", _default("method"))
    known = {key: settings.get(key, _default(key)) for key in wanted}
    if "weight" in known and known["weight"] is None:
        known["weight"] = getattr(find_method(method).Options(), "weight", None)
    return all(_plain(key, known[key]) == _plain(key, value) for key, value in wanted.items())


def _default(key: str) -> Any:
    field = Experiment.__dataclass_fields__[key]
    return {} if key == "options" else field.default


def _plain(key: str, value: Any) -> Any:
    """Values as they compare: a group alone and a list of one are the same."""
    if key == "group":
        return (value,) if isinstance(value, str) else tuple(value)
    return tuple(value) if isinstance(value, list) else value
