"""Learned, partly, or not: what a number is worth beside chance, pixels, an untrained network and patches."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from ..error import DuetError
from ..unit import in_unit
from .evaluation import PERCENT, Claim, evaluation_of
from .result import Result, Scores
from .wording import join, number, percent

LEAST = 0.1  # of the way from chance to perfect, below which nothing was learned whatever the interval says
NAMES = {"pixels": "the pixels", "untrained": "an untrained network", "patches": "k-means patches"}
"""Rivals as they stand in a sentence."""


class Level(str, Enum):
    """How far a claim holds."""

    LEARNED = "learned"
    PARTLY = "partly"
    NOT = "not learned"


class Standing(str, Enum):
    """Where a rival stands: apart only if the intervals are."""

    BETTER = "better"
    EQUAL = "as good"
    WORSE = "worse"


class Beside(NamedTuple):
    """A rival's number in words, and where it stands."""

    text: str
    standing: Standing


class Verdict(NamedTuple):
    """The level, the number with its interval, and who stands beside it, in words."""

    level: Level
    value: str
    beside: str
    claim: Claim
    rivals: dict[str, Beside]


def judge(result: Result) -> Verdict | None:
    """The verdict on a result's claim; None where its evaluation claims nothing.

    Learned: better than chance and than every rival, both intervals apart. Partly: better than chance, by at least a
    tenth of the way to perfect, but not than every rival, or the rivals were not measured. Else not learned.
    """
    evaluation = evaluation_of(result.name)
    claim = None if evaluation is None else evaluation.claim(result)
    if evaluation is None or claim is None or not math.isfinite(result.scalars.get(claim.key, math.nan)):
        return None
    own = _ends(Scores(result.scalars, result.intervals), claim.key)
    key = claim.rival or claim.key
    if evaluation.measured(key) != evaluation.measured(claim.key):
        raise DuetError(f"{result.name} compares {claim.key} with {key} of the rivals: these are two measures")
    rivals = {
        name: Beside(written(scores.scalars[key], claim), _standing(own, _ends(scores, key), claim.higher))
        for name, scores in result.rivals.items()
        if math.isfinite(scores.scalars.get(key, math.nan))
    }
    behind = [rival.standing is Standing.WORSE for rival in rivals.values()]
    level = Level.LEARNED if behind and all(behind) else Level.PARTLY
    if gain(own[0] if claim.higher else own[1], claim) < LEAST:
        level = Level.NOT
    beside = {"chance": written(claim.chance, claim)} | {name: rival.text for name, rival in rivals.items()}
    words = ", ".join(f"{name} {text}" for name, text in beside.items())
    value = with_interval(result.scalars[claim.key], result.intervals.get(claim.key), claim)
    return Verdict(level, value, words, claim, rivals)


def say(verdict: Verdict) -> str:
    """The verdict in two sentences, rivals and chance beside the number.

    "Rotation: learned. Read to 9.5° [8.8° to 10.3°], where a linear probe of the pixels reaches 17.9° and ignoring the
    image 90.0°."
    """
    return f"{headline(verdict)}. {explain(verdict)}"


def headline(verdict: Verdict) -> str:
    """What is learned or not: "Rotation: learned"."""
    level = "partly learned" if verdict.level is Level.PARTLY else verdict.level.value
    return f"{_capital(verdict.claim.what)}: {level}" if verdict.claim.what else _capital(level)


def explain(verdict: Verdict) -> str:
    """The number, what rivals and chance reach, and who is not behind."""
    claim, told = verdict.claim, []
    for place, (name, rival) in enumerate(verdict.rivals.items()):
        asked, reaches = (claim.asked.split()[-1], "") if place else (claim.asked, "reaches ")
        told.append(f"{asked} {NAMES.get(name, name)} {reaches}{rival.text}")
    chance = f"{claim.blind} {'' if told else 'reaches '}{written(claim.chance, claim)}"
    text = f"{_capital(claim.says.format(verdict.value))}, where {join([*told, chance])}."
    if verdict.level is Level.NOT:
        return f"{text} That is not clearly better than {claim.blind}."
    if not verdict.rivals:
        return f"{text} No rival was measured beside it."
    for standing, words in {Standing.BETTER: "Better: {}.", Standing.EQUAL: "Not clearly behind: {}."}.items():
        names = [NAMES.get(name, name) for name, rival in verdict.rivals.items() if rival.standing is standing]
        text += f" {words.format(join(names))}" if names else ""
    return text


def gain(value: float, claim: Claim) -> float:
    """How far from chance (0) to perfect (1)."""
    if claim.higher:
        return (value - claim.chance) / (1 - claim.chance) if claim.chance < 1 else 0.0
    return 1 - value / claim.chance if claim.chance > 0 else 0.0


def written(value: float, claim: Claim, short: bool = False) -> str:
    """A number as its claim is read: a share in percent, an error in its unit; no share is more than all."""
    if claim.higher or claim.unit == PERCENT:
        return percent(value) if value <= 1 else "over 100\N{NO-BREAK SPACE}%"
    return in_unit(value, claim.unit, short=short) if claim.unit else number(value)


def with_interval(value: float, ends: tuple[float, float] | None, claim: Claim) -> str:
    """A number with the 95 % interval around it."""
    texts = () if ends is None else dict.fromkeys(written(end, claim, short=True) for end in ends)
    return written(value, claim) + (f" [{' to '.join(texts)}]" if len(texts) > 1 else "")


def _ends(scores: Scores, key: str) -> tuple[float, float]:
    value = scores.scalars[key]
    return scores.intervals.get(key, (value, value))


def _standing(own: tuple[float, float], other: tuple[float, float], higher: bool) -> Standing:
    """On which side of the own interval another lies."""
    if own[0] > other[1]:
        return Standing.WORSE if higher else Standing.BETTER
    if own[1] < other[0]:
        return Standing.BETTER if higher else Standing.WORSE
    return Standing.EQUAL


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
