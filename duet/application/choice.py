"""Which shipped model fits a user's images, where none is named: the one that is sure of most of a sample."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import NamedTuple

import torch

from ..data.decoding import quiet
from ..data.input import stack_alike
from ..error import DuetError
from ..model import Encoder, load
from ..model.hub import shipped_models
from .angle import SURE_QUARTER, check_reading, estimate_rotation
from .files import Found, Reader, find_files
from .orientation import LEAST_SHARE

SAMPLE = 48
"""Images that are looked at."""


class Choice(NamedTuple):
    """A shipped model, its name, and how many images it knows and is sure of, of how many that can be read."""

    encoder: Encoder
    name: str
    known: int
    sure: int
    images: int

    def __str__(self) -> str:
        return f"model: {self.name}, sure of {self.sure} of {self.images} sampled images"


def choose_model(
    images: Iterable[str | os.PathLike[str]],
    device: str = "auto",
    turns: int | None = None,
    any_angle: bool = False,
) -> Choice:
    """The shipped model that can turn such images upright, by quarter turns or by any angle; one line says why there is
    none."""
    sample = draw(find_files(images), SAMPLE)
    tried: list[Choice] = []
    reasons: list[str] = []
    for name in shipped_models():
        try:
            encoder = load(name, device, turns=turns)
            check_reading(encoder, SURE_QUARTER, snap=not any_angle, span=None)
        except DuetError as error:
            reasons.append(str(error))
            continue
        with quiet():
            tried.append(Choice(encoder, name, *_known(encoder, sample)))
    if tried and not any(choice.images for choice in tried):
        raise DuetError(f"no image there can be read: {sample[0].path if sample else 'there is none'}")
    # Features of another kind of image may look familiar; of such an image the model is seldom sure. Figures are in
    # docs/decisions.md.
    best = max(tried, key=lambda choice: (choice.sure, choice.known), default=None)
    if best is None or best.sure < max(1, LEAST_SHARE * best.images):
        told = ", ".join(f"{choice.name} is sure of {choice.sure} of {choice.images}" for choice in tried)
        more = "; ".join(reason for reason in (told, *reasons) if reason)
        raise DuetError(f"no shipped model knows such images ({more}): name a model with --model RUN|NAME")
    return best


def draw(files: Iterable[Found], count: int) -> list[Found]:
    """`count` of the files, each as likely as any other, the same every time; in one pass over any number."""
    chance, kept = random.Random(0), list[Found]()
    for place, found in enumerate(files):
        if place < count:
            kept.append(found)
        elif (slot := chance.randint(0, place)) < count:
            kept[slot] = found
    return kept


def _known(encoder: Encoder, sample: list[Found]) -> tuple[int, int, int]:
    """How many images the model knows and how many it is sure of, of how many that can be read."""
    reader = Reader(encoder, SAMPLE)
    read = [pixels for _, pixels in map(reader.read, sample) if not isinstance(pixels, str)]
    if not read:
        return 0, 0, 0
    features = encoder.features(stack_alike([torch.from_numpy(pixels) for pixels in read]))
    found = estimate_rotation(encoder, features, SURE_QUARTER, snap=True)
    return int(found.known.sum()), int(found.sure.sum()), len(read)
