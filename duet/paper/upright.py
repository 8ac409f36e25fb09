"""How well upright is found: photos turned by known angles, each read once, with the surest and the worst of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ..application.angle import estimate_rotation
from ..data import Images
from ..evaluation.bootstrap import Bootstrap
from ..groups import Group
from ..model import Encoder
from ..progress import track

SUREST = 0.8
"""The share of the images, the surest, that is judged apart."""
RIGHT = 45.0
"""Degrees up to which a reading is the right quarter."""
BATCH = 256  # ONNX Runtime is worth its start from here on

Reader = Callable[[Tensor, bool], tuple[Tensor, Tensor]]
"""Reads images (B,C,H,W), of quarter turns only or of any: degrees counter-clockwise from upright, and how sure."""


@dataclass(frozen=True)
class Readings:
    """Of every image its number in the set, how far it was turned, what was read, and how sure the reader was: (N,)
    each, angles in degrees counter-clockwise."""

    number: Tensor
    turned: Tensor
    read: Tensor
    sure: Tensor

    def __len__(self) -> int:
        return len(self.number)

    @property
    def error(self) -> Tensor:
        """How far off every reading is, in [0, 180]: (N,)."""
        return (torch.remainder(self.read - self.turned + 180, 360) - 180).abs()

    def of(self, rows: Tensor) -> Readings:
        """Some of them."""
        return Readings(*(getattr(self, own.name)[rows] for own in fields(self)))

    def surest(self) -> Readings:
        """The surest SUREST of them; of equally sure ones the first."""
        order = self.sure.argsort(descending=True, stable=True)
        return self.of(order[: max(1, round(SUREST * len(self)))])

    def worst(self, count: int) -> Readings:
        """Wrong ones, the surest first: what a user would mind most."""
        wrong = (self.error > RIGHT).nonzero().flatten()
        return self.of(wrong[self.sure[wrong].argsort(descending=True, stable=True)][:count])

    def scalars(self) -> dict[str, float]:
        """Median error and share within a quarter, of all and of the surest, the shares with their 95 % intervals."""
        found = {"images": float(len(self))}
        for name, part in (("", self), ("surest_", self.surest())):
            right = (part.error <= RIGHT).double()
            found[f"{name}median_degrees"] = float(part.error.median())
            found[f"{name}within_45"] = float(right.mean())
            found[f"{name}within_45_low"], found[f"{name}within_45_high"] = Bootstrap(len(part)).mean(right)
        return found


def read_turned(read: Reader, images: Images, group: Group, quarters: bool = False, seed: int = 0) -> Readings:
    """Every image turned once by the group, by any angle or by a whole number of quarters, and read."""
    generator = torch.Generator().manual_seed(seed)
    count = len(images)
    turns = torch.randint(4, (count,), generator=generator) / 4 if quarters else torch.rand(count, generator=generator)
    parts: list[Readings] = []
    sized = ((min(BATCH, count - start), start) for start in range(0, count, BATCH))
    for start in track(sized, count, "reading turned images"):
        rows = torch.arange(start, min(start + BATCH, count))
        degrees, sure = read(turn(torch.stack([images[int(row)] for row in rows]), group, turns[rows]), quarters)
        parts.append(Readings(rows, 360 * turns[rows], degrees.cpu(), sure.cpu()))
    return Readings(*(torch.cat([getattr(part, own.name) for part in parts]) for own in fields(Readings)))


def turn(images: Tensor, group: Group, turns: Tensor) -> Tensor:
    """Images (B,C,H,W) by so many whole turns (B,) from upright, as the group shows them."""
    return group.apply(images, torch.remainder(group.identity + turns, 1))


def of_model(encoder: Encoder) -> Reader:
    """A model's own reading."""

    def read(images: Tensor, quarters: bool) -> tuple[Tensor, Tensor]:
        found = estimate_rotation(encoder, encoder.features(images), snap=quarters)
        return found.degrees, found.probability

    return read


def by_kind(readings: Readings, labels: Tensor, classes: Sequence[str]) -> dict[str, Readings]:
    """Apart by what is before the first hyphen of a class's name, such as pet- and scene-."""
    kinds = [name.partition("-")[0] for name in classes]
    names = sorted(set(kinds))
    own = torch.tensor([names.index(kind) for kind in kinds])[labels[readings.number]]
    return {kind: readings.of((own == place).nonzero().flatten()) for place, kind in enumerate(names)}


def hardest(readings: Readings, labels: Tensor, classes: Sequence[str], least: int = 5) -> list[dict[str, Any]]:
    """Of classes with at least so many images the share that is read right, the smallest first."""
    rows = []
    for place, name in enumerate(classes):
        own = readings.of((labels[readings.number] == place).nonzero().flatten())
        if len(own) >= least:
            share = float((own.error <= RIGHT).double().mean())
            rows.append({"class": name, "images": len(own), "within_45": share})
    return sorted(rows, key=lambda row: (row["within_45"], row["class"]))
