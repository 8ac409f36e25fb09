"""What the page computes: pure functions from a trained model, a picture and a value of g to what is shown."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from ..evaluation.generation import squared_errors
from ..evaluation.grid import elements_through_identity
from ..groups import Group
from ..model import Reading
from ..networks.decoder import Decoder
from ..representation import Axis, Prescribed
from .opening import Explorer
from .picture import Picture

UNMOVED = "none"
STILL = 0.05  # of the features' length: where leaving them costs less, no way to move them can be called astray


class Spread(NamedTuple):
    """How wide P(g|x) is, how wide it is at best, and how wide when all bins are alike; in the group's unit."""

    own: float
    sharp: float
    flat: float


class Marginal(NamedTuple):
    """P(g|x) (bins,), and what is read off it: no value where it is unknown, no spread where none can be read.

    `trust` says in words why a value is unknown, or how probably it is right.
    """

    masses: list[float]
    parameter: float | None
    spread: Spread | None
    trust: str = ""


class Moved(NamedTuple):
    """One way to move the features: how far it ends from the truth, and what the decoder makes of it."""

    distance: float
    image: Tensor | None  # (C,H,W)
    error: float | None  # of the pixels
    astray: bool  # farther from the truth than features that were left as they are
    static: bool  # astray, and drawn worse than a plain grey


class Move(NamedTuple):
    """The image truly transformed (C,H,W), the value it counts from, and every way to get there by its name.

    `redrawn`: the decoder draws the picture from its own features better than a plain grey would.
    """

    truth: Tensor
    start: float
    ways: dict[str, Moved]
    redrawn: bool
    unknown: bool  # it counts as untouched because its value could not be read


class Range(NamedTuple):
    """The values that a slider offers."""

    low: float
    high: float
    step: float
    first: float


def measure_spread(reading: Reading, axis: Axis, group: Group) -> Spread:
    """The spread of one picture's reading, that of the target at the same g, and that of equal bins about it."""
    g = reading.g[:1].double().cpu()
    sharp = axis.target.estimate(axis.target.masses(g, axis.bins)).spread
    centres = (torch.arange(axis.bins, dtype=torch.float64) + 0.5) / axis.bins
    flat = group.domain.distance(centres, g).square().mean().sqrt()
    width = abs(group.span[1] - group.span[0])
    return Spread(float(reading.spread[0]), float(sharp) * width, float(flat) * width)


def read(explorer: Explorer, picture: Picture, name: str) -> Marginal | None:
    """P(g|x) of a picture; None when the features have no columns for the group."""
    if not explorer.tracks(name):
        return None
    representation = explorer.encoder.representation(picture.z)
    axis, masses = representation.find(name), representation.marginal(name)[0].tolist()
    if not axis.readable:
        return Marginal(masses, None, None)
    group, reading = explorer.group(name), explorer.encoder.recover(representation, axis)
    value = None if bool(reading.unknown[0]) else float(reading.value[0])
    return Marginal(masses, value, measure_spread(reading, axis, group), _trust(reading))


def _trust(reading: Reading) -> str:
    """Why one picture's value is not told, or how probably it is right."""
    if reading.known is not None and not bool(reading.known[0]):
        return "This is another kind of image than the model knows."
    if reading.probability is None:
        return "The features do not single out one value." if bool(reading.unknown[0]) else ""
    probability = float(reading.probability[0])
    share = "over 99" if probability >= 0.995 else f"{100 * probability:.0f}"
    share += "\N{NO-BREAK SPACE}%"
    return f"{'Not sure enough to tell: r' if bool(reading.unknown[0]) else 'R'}ight with a probability of {share}."


def start(explorer: Explorer, picture: Picture, name: str) -> float:
    """The g that a picture counts as: test images are untouched, a dropped one may have come transformed.

    Only on circles, where every element can be undone, and only if the model knows an origin and the value.
    """
    group, reading = explorer.group(name), _reading_to_undo(explorer, picture, name)
    if reading is None or reading.parameter is None:
        return group.identity
    g = group.from_parameter(reading.parameter)
    if group.elements is not None:
        return group.elements[int(group.domain.nearest(g[None], torch.tensor(group.elements))[0])]
    return float(g)


@torch.inference_mode()
def move(explorer: Explorer, picture: Picture, name: str, parameter: float) -> Move:
    """The picture truly taken to a parameter, and its features taken there by every action there is, and not at all.

    Distances are |T z - f(tau x)|.
    """
    group, encoder = explorer.group(name), explorer.encoder
    g = float(group.from_parameter(torch.tensor(parameter, dtype=torch.float64)).clamp(0, 1))
    origin = start(explorer, picture, name)
    at = group.domain.wrap(torch.tensor([group.identity + g - origin]))
    truth = group.apply(picture.image, at)
    reached = encoder.features(truth)
    representation = encoder.representation(picture.z)
    kinds = [Prescribed.name] if explorer.tracks(name) else []
    kinds += list(encoder.actions.get(name, {}))
    moved = {UNMOVED: picture.z}
    moved |= {kind: representation.action(kind, name).carry(picture.z, origin, g) for kind in kinds}
    decoder = explorer.decoders.get(name)
    ways = {way: _compare(decoder, z, picture.z, reached, truth) for way, z in moved.items()}
    redrawn = decoder is not None and _redraws(decoder, picture)
    reading = _reading_to_undo(explorer, picture, name)
    unknown = reading is not None and reading.parameter is None
    return Move(truth[0].cpu(), float(group.parameter(origin)), ways, redrawn, unknown)


def slider(group: Group) -> Range:
    """Where a slider runs: over the elements of a finite group, else over what training draws; first a clear change."""
    own = float(group.parameter(group.identity))
    if group.elements is not None:
        values = sorted(float(group.parameter(g)) for g in group.elements)
        step = min((b - a for a, b in pairwise(values)), default=1.0)
        return Range(values[0], values[-1], step, next((v for v in values if v != own), own))
    circle = group.cyclic
    ends = torch.tensor([0.0, 1.0]) if circle else elements_through_identity(group, 2)[[0, -1]]
    low, high = sorted(round(float(group.parameter(g)), 4) for g in ends)
    if circle:
        first = round(float(group.parameter((group.identity + 1 / 8) % 1)), 4)
        return Range(low, high, (high - low) / 360, first)
    return Range(low, high, round((high - low) / 100, 6), max(low, high, key=lambda value: abs(value - own)))


def _reading_to_undo(explorer: Explorer, picture: Picture, name: str) -> Marginal | None:
    """What a dropped picture's start is taken from, if from anything."""
    if picture.place is not None or explorer.relative or not explorer.group(name).cyclic:
        return None
    return read(explorer, picture, name)


def _compare(decoder: Decoder | None, z: Tensor, unmoved: Tensor, reached: Tensor, truth: Tensor) -> Moved:
    distance, least = float((z - reached).norm()), STILL * float(reached.norm())
    astray = distance > float((unmoved - reached).norm()) > least
    if decoder is None:
        return Moved(distance, None, None, astray, static=False)
    image = decoder.images(z)
    error = float(squared_errors(image, truth.to(image.device))[0])
    return Moved(distance, image[0].cpu(), error, astray, static=astray and error >= _error_of_grey(truth))


def _redraws(decoder: Decoder, picture: Picture) -> bool:
    image = decoder.images(picture.z)
    return float(squared_errors(image, picture.image.to(image.device))[0]) < _error_of_grey(picture.image)


def _error_of_grey(image: Tensor) -> float:
    """The squared error of the best picture of one grey."""
    return float(image.var(correction=0))
