"""The mean of a set before and after it was aligned: the picture that shows whether it worked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from ..groups import Group
from ..pixels import as_bytes
from .alignment import Alignment

SIDE = 112  # pixels of a mean in the picture, at least
GAP = 8
LINE = 14  # height of a line of text
LETTER = 6  # about the width of a letter
COLUMNS = 10


class MeanImages(NamedTuple):
    """Means (C,H,W) before and after, and the variance of the set around each: the mean squared distance, summed over
    the pixels."""

    name: str
    before: Tensor
    after: Tensor
    variance_before: float
    variance_after: float

    @property
    def fall(self) -> float:
        """By which share the variance fell."""
        return 1 - self.variance_after / self.variance_before if self.variance_before > 0 else 0.0


def mean_images(images: Tensor, alignment: Alignment, name: str = "", batch: int = 512) -> MeanImages:
    """Of a set (N,C,H,W) that was aligned, seen through a disc.

    Turning blurs an image, and blur alone makes a set more alike. So the variance before is that of the set turned too:
    all of it alike.
    """
    group = alignment.group
    upright = torch.zeros(len(images))
    alike = upright if group.elements is not None else upright + 1 / 12
    before, _ = _moments(images, upright, group, batch)
    _, variance_before = _moments(images, alike, group, batch)
    after, variance_after = _moments(images, -alignment.by, group, batch)
    return MeanImages(name, before, after, variance_before, variance_after)


def draw_means(sets: Sequence[MeanImages]) -> Image.Image:
    """One column a set, its mean before above its mean after; many sets in several lines."""
    _, height, width = sets[0].before.shape
    scale = max(1, -(-SIDE // max(height, width)))
    height, width = scale * height, scale * width
    columns = min(len(sets), COLUMNS)
    across, down = width + GAP, 2 * (height + LINE) + LINE + GAP
    page = Image.new("RGB", (columns * across + GAP, -(-len(sets) // columns) * down + GAP), "white")
    draw = ImageDraw.Draw(page)
    for place, one in enumerate(sets):
        left, top = GAP + place % columns * across, GAP + place // columns * down
        draw.text((left, top), _shortened(one.name, width), fill="black")
        for word, mean in (("before", one.before), (f"after: variance {-one.fall:+.0%}", one.after)):
            page.paste(_picture(mean, (width, height)), (left, top + LINE))
            draw.text((left, top + LINE + height), word, fill="black")
            top += height + LINE
    return page


def _picture(mean: Tensor, size: tuple[int, int]) -> Image.Image:
    pixels = as_bytes(mean.expand(3, -1, -1) if len(mean) == 1 else mean[:3])
    picture = Image.fromarray(pixels.permute(1, 2, 0).contiguous().cpu().numpy())
    return picture.resize(size, Image.Resampling.BICUBIC)


def _shortened(name: str, width: int) -> str:
    """A name in letters that can be drawn, cut where the column ends."""
    plain = name.encode("ascii", "replace").decode()
    fits = int(width / LETTER)
    return plain if len(plain) <= fits else plain[: fits - 3] + "..."


def _moments(images: Tensor, by: Tensor, group: Group, batch: int) -> tuple[Tensor, float]:
    """The mean (C,H,W) of images turned by so much each, and their variance around it."""
    g = group.domain.wrap(group.identity + by).to(images.device)
    total = torch.zeros(images.shape[1:], dtype=torch.float64, device=images.device)
    squares = 0.0
    for part, own in zip(torch.split(images, batch), torch.split(g, batch), strict=True):
        turned = group.apply(part, own).double()
        total += turned.sum(0)
        squares += float(turned.square().sum())
    mean = total / len(images)
    return mean.float(), max(0.0, squares / len(images) - float(mean.square().sum()))
