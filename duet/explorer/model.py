"""What the page computes: pure functions from a trained model, a picture and a value of g to what is shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..data import open_images
from ..data.decoding import Unreadable, decode, measure, quiet
from ..error import DuetError, first_line
from ..evaluation.generation import squared_errors
from ..evaluation.grid import elements_through_identity
from ..groups import Group
from ..model import Encoder, load, load_decoder, training_data
from ..networks.decoder import Decoder
from ..pixels import as_float
from ..representation import Prescribed

IMAGES = 1000
"""Test images at most: those of the gallery, and those among which neighbours are sought."""
NEIGHBOURS = 7
LARGEST_FILE = 20_000_000
LARGEST_IMAGE = 40_000_000
Space = Literal["content", "full"]


@dataclass(frozen=True)
class Explorer:
    """A model with its decoders by group, and test images uint8 (N,C,H,W) with their labels; none if `N` is 0."""

    encoder: Encoder
    decoders: Mapping[str, Decoder]
    images: Tensor
    labels: tuple[str, ...] = ()
    missing: str = ""  # why there are no test images
    _banks: dict[str, Bank] = field(default_factory=dict, repr=False)

    @property
    def relative(self) -> bool:
        """Does the model know differences only?"""
        return self.encoder.relative

    def group(self, name: str) -> Group:
        """One of the model's groups."""
        return self.encoder.groups[name]

    def tracks(self, name: str) -> bool:
        """Have the features columns for this group?"""
        return any(axis.name == name for axis in self.encoder.layout.axes)


class Bank(NamedTuple):
    """Images among which neighbours are sought (N,C,H,W), their features (N,D), and the g of each (N,) if it varies."""

    images: Tensor
    z: Tensor
    g: Tensor | None


@dataclass(frozen=True)
class Picture:
    """The image in question (1,C,H,W) in [0,1], its features (1,D), and its place among the test images."""

    image: Tensor
    z: Tensor
    place: int | None = None


class Marginal(NamedTuple):
    """P(g|x) (bins,), what is read off it in the group's own unit, and how far it is to be trusted.

    `unknown`: no value should be told. `probability` and `known` (a kind of image that the model knows) are those of a
    calibrated model, else None.
    """

    masses: list[float]
    parameter: float
    spread: float
    unknown: bool = False
    probability: float | None = None
    known: bool | None = None


class Moved(NamedTuple):
    """One way to move the features: how far it ends from the truth, and what the decoder makes of it."""

    distance: float
    image: Tensor | None  # (C,H,W)
    error: float | None  # of the pixels


class Move(NamedTuple):
    """The image truly transformed (C,H,W), the value it counts from, and every way to get there by its name."""

    truth: Tensor
    start: float
    ways: dict[str, Moved]


class Neighbour(NamedTuple):
    """A test image that lies near: its pixels (C,H,W), its label, the parameter it was given, and the cosine."""

    image: Tensor
    label: str
    parameter: float | None
    cosine: float


class Range(NamedTuple):
    """The values that a slider offers."""

    low: float
    high: float
    step: float
    first: float


def open_explorer(run: str | os.PathLike[str], device: str = "auto") -> Explorer:
    """Everything that the page needs of a trained run; what is missing is left out, and said."""
    encoder = load(run, device)
    found = {name: load_decoder(run, name, device) for name in encoder.groups}
    decoders = {name: decoder for name, decoder in found.items() if decoder is not None}
    try:
        return Explorer(encoder, decoders, *_test_images(encoder))
    except (ValueError, OSError) as error:
        reason = first_line(error)
        none = torch.empty(0, encoder.channels, *_size(encoder), dtype=torch.uint8)
        missing = f"The model's test images cannot be opened ({reason}): drop one of yours."
        return Explorer(encoder, decoders, none, missing=missing)


def pick(explorer: Explorer, place: int) -> Picture:
    """A test image."""
    image = as_float(explorer.images[place : place + 1].to(explorer.encoder.device))
    return Picture(image, explorer.encoder.features(image), place)


def drop(explorer: Explorer, path: Path) -> Picture:
    """A stranger's file; what is not an image, or is absurdly large, is refused with a sentence."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise DuetError(f"The file has {size / 1e6:.0f} MB; at most {LARGEST_FILE / 1e6:.0f} are taken.")
    height, width = _size(explorer.encoder)
    try:
        with quiet():
            tall, wide = measure(path)
            if tall * wide > LARGEST_IMAGE:
                most = LARGEST_IMAGE // 1_000_000
                raise DuetError(f"The image has {wide} x {tall} pixels; at most {most} million are taken.")
            pixels = torch.from_numpy(decode(path, explorer.encoder.channels, height if height == width else None))
    except Unreadable as reason:
        raise DuetError(f"This file cannot be read as an image: {reason}.") from None
    image = as_float(pixels.unsqueeze(0).to(explorer.encoder.device))
    if image.shape[2:] != (height, width):
        image = functional.interpolate(image, (height, width), mode="bilinear", antialias=True).clamp(0, 1)
    return Picture(image, explorer.encoder.features(image))


def read(explorer: Explorer, picture: Picture, name: str) -> Marginal | None:
    """P(g|x) of a picture; None when the features have no columns for the group."""
    if not explorer.tracks(name):
        return None
    representation = explorer.encoder.representation(picture.z)
    reading = explorer.encoder.recover(representation, name)
    return Marginal(
        representation.marginal(name)[0].tolist(),
        float(reading.value[0]),
        float(reading.spread[0]),
        bool(reading.unknown[0]),
        None if reading.probability is None else float(reading.probability[0]),
        None if reading.known is None else bool(reading.known[0]),
    )


def start(explorer: Explorer, picture: Picture, name: str) -> float:
    """The g that a picture counts as: test images are untouched, a dropped one may have come transformed.

    Only on circles, where every element can be undone, only if the model knows an origin, and if it can tell.
    """
    group = explorer.group(name)
    if picture.place is not None or explorer.relative or not group.cyclic or not explorer.tracks(name):
        return group.identity
    reading = explorer.encoder.recover(picture.z, name)
    if bool(reading.unknown[0]):
        return group.identity
    g = reading.g.float().cpu()
    if group.elements is not None:
        return group.elements[int(group.domain.nearest(g, torch.tensor(group.elements))[0])]
    return float(g[0])


@torch.inference_mode()
def move(explorer: Explorer, picture: Picture, name: str, parameter: float) -> Move:
    """The picture truly taken to a parameter, and its features taken there by T_g, by the fitted action, not at all.

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
    moved = {"none": picture.z}
    moved |= {kind: representation.action(kind, name).carry(picture.z, origin, g) for kind in kinds}
    ways = {way: _compare(explorer.decoders.get(name), z, reached, truth) for way, z in moved.items()}
    return Move(truth[0].cpu(), float(group.parameter(origin)), ways)


def neighbours(explorer: Explorer, picture: Picture, space: Space, turned: str = "") -> list[Neighbour]:
    """The test images nearest to a picture by cosine; with `turned`, each under a random element of that group."""
    bank = _bank(explorer, turned)
    view = explorer.encoder.layout.content if space == "content" else torch.nn.Identity()
    cosine = functional.cosine_similarity(view(bank.z), view(picture.z))
    if picture.place is not None:
        cosine[picture.place] = -torch.inf  # itself
    best = cosine.topk(min(NEIGHBOURS, len(cosine) - (picture.place is not None))).indices.tolist()
    return [
        Neighbour(
            bank.images[i],
            explorer.labels[i] if explorer.labels else "",
            None if bank.g is None else float(explorer.group(turned).parameter(float(bank.g[i]))),
            float(cosine[i]),
        )
        for i in best
    ]


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


def _compare(decoder: Decoder | None, z: Tensor, reached: Tensor, truth: Tensor) -> Moved:
    distance = float((z - reached).norm())
    if decoder is None:
        return Moved(distance, None, None)
    image = decoder.images(z)
    return Moved(distance, image[0].cpu(), float(squared_errors(image, truth.to(image.device))[0]))


def _bank(explorer: Explorer, turned: str) -> Bank:
    """The test images, as they are or each under an element of its own, with their features; computed once."""
    if turned not in explorer._banks:
        images, g = as_float(explorer.images.to(explorer.encoder.device)), None
        if turned:
            group = explorer.group(turned)
            g = group.sample(len(images), torch.Generator().manual_seed(0))
            images = group.apply(images, g)
        explorer._banks[turned] = Bank(images, explorer.encoder.features(images), g)
    return explorer._banks[turned]


def _test_images(encoder: Encoder) -> tuple[Tensor, tuple[str, ...]]:
    data = training_data(encoder)
    if "source" not in data:
        raise DuetError("it does not say which they are")
    source: Any = open_images(**{**data, "subset": None}, split="test")
    pixels, labels = next(source.batches(min(IMAGES, len(source)), seed=0, epoch=0, drop_last=False))
    if encoder.image_size is not None and pixels.shape[2:] != encoder.image_size:
        raise DuetError("they have another size than the model knows")
    if labels is None:
        return pixels, ()
    names = source.classes or ()
    return pixels, tuple(names[y] if 0 <= y < len(names) else "" if y < 0 else str(y) for y in labels.tolist())


def _size(encoder: Encoder) -> tuple[int, int]:
    if encoder.image_size is None:
        raise DuetError("this model does not say which size of images it takes; give Encoder(..., image_size=...)")
    return encoder.image_size
