"""How far images are turned from a model's upright: any angle, a quarter turn, or a small tilt."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..error import DuetError
from ..groups import Group, Rotation
from ..model import Encoder
from ..model.confidence import SURE, doubt
from ..model.error_quantiles import Errors
from ..representation import Axis

STEP = 0.1
"""Degrees between the tilts that are compared."""
SURE_QUARTER = 0.95
"""The probability from which on a quarter turn counts as sure."""
SURE_ANGLE = 0.95
"""The probability from which on a rotation by any angle counts as an improvement."""
GROSS = 0.3
"""Of the probability that is left for a failure, so much at most for a gross one: an error of more than 45 degrees,
which stands a level photo on its head. Chosen on photos kept aside: see docs/decisions.md."""


class Rotations(NamedTuple):
    """Degrees from the model's upright, counter-clockwise in [-180, 180), the probability that each is right, whether
    the image is of a kind that the model knows, and whether both are enough to be sure: (B,) each."""

    degrees: Tensor
    probability: Tensor
    known: Tensor
    sure: Tensor


def rotation_axis(encoder: Encoder) -> Axis:
    """The model's axis of rotation; one line says why there is none."""
    for axis in encoder.layout.axes:
        if isinstance(encoder.groups[axis.name], Rotation):
            if encoder.relative:
                raise DuetError(
                    "this model knows differences of angles only, and so no upright; use one that was "
                    "trained with --reference absolute"
                )
            return axis
    names = ", ".join(axis.name for axis in encoder.layout.axes) or "none"
    raise DuetError(f"this model cannot tell a rotation (its groups: {names}); it needs rot360 or rot4")


def check_reading(encoder: Encoder, sure: float, snap: bool, span: float | None) -> None:
    """One line says why a model cannot be read so: the best quarter turn with `snap`, else any angle."""
    axis = rotation_axis(encoder)
    if not 0 <= sure <= 1:
        raise DuetError(f"--sure is a probability, from 0 to 1, not {sure:g}")
    if span is not None and snap:
        raise DuetError("--snap 90 decides between quarter turns, --range reads small tilts: give one of them")
    if span is not None and not 0 < span < 180:
        raise DuetError(f"--range is in degrees to either side, above 0 and below 180, not {span:g}")
    if span is not None and encoder.groups[axis.name].elements is not None:
        raise DuetError("this model knows quarter turns only, and no tilts; --range needs one trained with rot360")
    if not snap and encoder.groups[axis.name].elements is not None:
        raise DuetError("this model knows quarter turns only: leave out --any-angle, or name one trained with rot360")
    if sure and not is_calibrated(encoder):
        if encoder.confidences:
            known = " or ".join(map(str, sorted(encoder.confidences)))
            raise DuetError(
                f"this model knows how sure it is with {known} turns, not with {encoder.turns}: give --turns {known}"
            )
        raise DuetError(
            "this model cannot tell how sure it is: train it on 1,000 images or more without --no-calibrate, or give "
            "--sure 0 to turn every image"
        )
    if sure and not snap and errors_of(encoder) is None:
        raise DuetError(
            "this model does not know how far off its angles are: it was calibrated by an older version; train it "
            "again, or give --sure 0 to turn every image"
        )


def errors_of(encoder: Encoder) -> Errors | None:
    """How far off the model's angles are on held-out images; None where that was not measured."""
    return None if encoder.confidence is None else encoder.confidence.errors.get(rotation_axis(encoder).name)


def is_calibrated(encoder: Encoder) -> bool:
    """Whether the model can tell how sure it is of a rotation."""
    return encoder.confidence is not None and rotation_axis(encoder).name in encoder.confidence.axes


def reads_quarters(encoder: Encoder, snap: bool) -> bool:
    """Whether every angle is a whole number of quarter turns."""
    return snap or encoder.groups[rotation_axis(encoder).name].elements is not None


def estimate_rotation(
    encoder: Encoder, features: Tensor, sure: float = SURE, snap: bool = False, span: float | None = None
) -> Rotations:
    """The rotations of images by their features: (B, D) -> (B,) each.

    `snap` reads the best quarter turn, as a model of quarter turns does by itself; `span` the best tilt of at most so
    many degrees. The probability is that of the angle which is read. A tilt at the very end of the span is not sure:
    the image seems to be turned further.

    Of a model that is not calibrated the probability is NaN, all is known, and sure unless P(g|x) is flat.
    """
    axis = rotation_axis(encoder)
    group = encoder.groups[axis.name]
    reading = encoder.recover(encoder.representation(features), axis, sure, _candidates(group, snap, span))
    angle = reading.value - float(group.parameter(group.identity))
    if reads_quarters(encoder, snap):
        angle = (angle / 90).round() * 90
    degrees = torch.remainder(angle + 180, 360) - 180
    within = torch.ones_like(reading.unknown) if span is None or not sure else degrees.abs() < span - STEP / 2
    if reading.probability is None or reading.known is None or reading.sure is None:
        known = torch.ones_like(reading.unknown)
        certain = ~reading.unknown & within if sure else known
        return Rotations(degrees, torch.full_like(degrees, torch.nan), known, certain)
    return Rotations(degrees, reading.probability, reading.known, reading.sure & within)


def judge_improvement(
    encoder: Encoder, features: Tensor, found: Rotations, sure: float = SURE_ANGLE, span: float | None = None
) -> Rotations:
    """The same angles, each with the probability that turning back by it leaves a smaller tilt than there is.

    An image that is turned by t and read as r is left at a tilt of |t - r| = e, the error. Since |r| <= |t| + e, that
    is |t| or more only where e >= |r| / 2, whatever t is. So the probability is that of an error below |r| / 2, from
    held-out images of about the same doubt; it needs no assumption about how many images are level. To be sure, the
    angle has also to be right to 45 degrees with a probability of 1 - GROSS (1 - sure).
    """
    errors = errors_of(encoder)
    if errors is None:
        return found
    axis = rotation_axis(encoder)
    group = encoder.groups[axis.name]
    turn = abs(float(group.parameter(1.0) - group.parameter(0.0)))
    masses = encoder.representation(features).marginal(axis)
    g = torch.remainder(group.identity + found.degrees.to(masses) / turn, 1)
    uneasy = doubt(masses, g, axis.target.domain, errors.within)
    probability = errors.below(uneasy, found.degrees.abs().to(masses) / turn / 2).to(found.degrees)
    certain = found.known & (probability >= sure) & (found.probability >= 1 - GROSS * (1 - sure))
    if span is not None and sure:
        certain &= found.degrees.abs() < span - STEP / 2
    return found._replace(probability=probability, sure=certain)


def _candidates(group: Group, snap: bool, span: float | None) -> Tensor | None:
    """The elements to choose from, in units of g: (K,)."""
    if span is not None:
        degrees = torch.linspace(-span, span, 2 * math.ceil(span / STEP) + 1, dtype=torch.float64)
    elif snap:
        degrees = torch.tensor([0.0, 90.0, 180.0, 270.0], dtype=torch.float64)
    else:
        return None
    turn = float(group.parameter(1.0) - group.parameter(0.0))
    return torch.remainder(group.identity + degrees / turn, 1)
