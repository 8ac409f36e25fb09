"""Learned, partly, or not: what a number is worth beside chance and beside rivals that have learned nothing."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from ..unit import in_unit
from .evaluation import Claim, evaluation_of
from .result import Result, Scores
from .wording import number, percent

LEAST = 0.1  # of the way from chance to perfect, below which nothing was learned whatever the interval says


class Level(str, Enum):
    """How far a claim holds."""

    LEARNED = "learned"
    PARTLY = "partly"
    NOT = "not learned"


class Verdict(NamedTuple):
    """The level, the number with its interval, and who stands beside it, in words."""

    level: Level
    value: str
    beside: str


def judge(result: Result) -> Verdict | None:
    """The verdict on a result's claim; None where its evaluation claims nothing.

    Learned: better than chance and than every rival, both intervals apart. Partly: better than chance, by at least a
    tenth of the way to perfect, but not than every rival, or the rivals were not measured. Else not learned.
    """
    evaluation = evaluation_of(result.name)
    claim = None if evaluation is None else evaluation.claim(result)
    if claim is None or not math.isfinite(result.scalars.get(claim.key, math.nan)):
        return None
    own = _ends(Scores(result.scalars, result.intervals), claim.key)
    worse_end = own[0] if claim.higher else own[1]
    rivals = {
        name: _ends(scores, claim.rival or claim.key)
        for name, scores in result.rivals.items()
        if math.isfinite(scores.scalars.get(claim.rival or claim.key, math.nan))
    }
    level = (
        Level.LEARNED
        if rivals and all(_better(own, other, claim.higher) for other in rivals.values())
        else Level.PARTLY
    )
    if _gain(worse_end, claim) < LEAST:
        level = Level.NOT
    beside = {"chance": claim.chance} | {
        name: scores.scalars[claim.rival or claim.key] for name, scores in result.rivals.items() if name in rivals
    }
    words = ", ".join(f"{name} {written(value, claim)}" for name, value in beside.items())
    return Verdict(level, with_interval(result.scalars[claim.key], result.intervals.get(claim.key), claim), words)


def written(value: float, claim: Claim) -> str:
    """A number as its claim is read: a share in percent, an error in its unit."""
    if claim.higher:
        return percent(value)
    return in_unit(value, claim.unit) if claim.unit else number(value)


def with_interval(value: float, ends: tuple[float, float] | None, claim: Claim) -> str:
    """A number with the 95 % interval around it."""
    if ends is None:
        return written(value, claim)
    return f"{written(value, claim)} [{written(ends[0], claim)} to {written(ends[1], claim)}]"


def _gain(value: float, claim: Claim) -> float:
    """How far from chance (0) to perfect (1)."""
    if claim.higher:
        return (value - claim.chance) / (1 - claim.chance) if claim.chance < 1 else 0.0
    return 1 - value / claim.chance if claim.chance > 0 else 0.0


def _ends(scores: Scores, key: str) -> tuple[float, float]:
    value = scores.scalars[key]
    return scores.intervals.get(key, (value, value))


def _better(own: tuple[float, float], other: tuple[float, float], higher: bool) -> bool:
    """Whether two intervals lie apart, the own one on the better side."""
    return own[0] > other[1] if higher else own[1] < other[0]
