"""What to do with an encoder, in one sentence; each only where its own numbers say so."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..groups import Group
from ..unit import unit_name
from .wording import percent

HARDLY = 0.05
"""Sensitivity below which features hardly move: a copy lies 20 times nearer than another image, squared."""
MUCH = 0.5
"""Sensitivity from which features move as far as to another image, nearly."""
LOST = 0.1
"""Accuracy of nearest neighbours that must be lost, at the least that its interval allows."""
HELD = 0.05
"""Accuracy that may be lost, at the most that its interval allows, to say that it holds."""
FEW = 3
"""Views for every number of a layer, below which a spectrum that finds nothing says nothing: half of them fit it."""
READABLE = 0.5
"""Share of the way from chance to perfect from which the difference of two views counts as known."""

Scalars = Mapping[str, float]
Intervals = Mapping[str, tuple[float, float]]


def known_share(scalars: Scalars, group: Group) -> float:
    """How much of the difference between two views the features tell: 0 is chance, 1 perfect; NaN if not measured."""
    error = scalars.get(f"spectrum/median_difference_error_{unit_name(group.unit)}")
    blind = scalars.get(f"spectrum/constant_difference_error_{unit_name(group.unit)}")
    if error is not None and blind:
        return 1 - error / blind
    hits, guessed = (scalars.get(f"spectrum/{kind}difference_accuracy") for kind in ("", "constant_"))
    if hits is not None and guessed is not None:
        return (hits - guessed) / (1 - guessed)
    return 1 - scalars.get("equivariance/error_fitted", math.nan)


def advise(scalars: Scalars, intervals: Intervals, group: Group, features: int = 0, views: int | None = None) -> str:
    """The sentence; nothing where no test holds. `views`: how many a spectrum of so many `features` was fitted to.

    blind:      equivariance/sensitivity < HARDLY, and less than READABLE is known: what hardly moves may still tell
    breaks:     robustness/loss at least LOST, by its whole interval, and less than READABLE is known
    sensitive:  the same loss, and READABLE or more is known
    holds:      robustness/loss at most HELD, by its whole interval, and READABLE or more is known
    too few:    blind or breaks by a spectrum that was found on fewer than FEW views for every number
    Without labels, `breaks` and `sensitive` ask for a sensitivity of MUCH in the place of the loss.
    """
    found = _advise(scalars, intervals, group)
    by_spectrum = any(key.startswith("spectrum/") for key in scalars)
    if (
        found
        and by_spectrum
        and views is not None
        and views < FEW * features
        and known_share(scalars, group) < READABLE
    ):
        return f"too few views to tell: {views:,} for {features:,} features; take at least {FEW * features:,}"
    return found


def _advise(scalars: Scalars, intervals: Intervals, group: Group) -> str:
    title = group.title or group.name
    turns = group.unit == "degrees"
    sensitivity = scalars.get("equivariance/sensitivity", math.nan)
    known = known_share(scalars, group)
    if sensitivity < HARDLY:
        blind = f"{title}-blind: use it where the {title} must not matter; it cannot be read"
        return "" if known >= READABLE else blind
    loss = scalars.get("robustness/loss")
    low, high = intervals.get("robustness/loss", (math.nan, math.nan))
    if loss is not None:
        fell = (
            f"neighbours of the right class fall from {percent(scalars['robustness/knn_untouched'])} "
            f"to {percent(scalars['robustness/knn_transformed'])}"
        )
        moved, kept = low >= LOST, high <= HELD
    else:
        fell = f"its features move {sensitivity:.2g} times as far as to another image"
        moved, kept = sensitivity >= MUCH, False
    if moved and known < READABLE:
        return f"will break under {title}: {fell}"
    if moved and known >= READABLE:
        what = "turn-sensitive: align before retrieval" if turns else f"{title}-sensitive: undo it before retrieval"
        return f"{what}; {fell}"
    if kept and known >= READABLE:
        return f"holds under {title}, and knows it: class and {title} can both be read"
    return ""
