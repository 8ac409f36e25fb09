"""The picture in question: a test image that was picked, or a stranger's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from ..data.decoding import Unreadable, decode, measure, quiet
from ..error import DuetError
from ..pixels import as_float
from .opening import Explorer, image_size

LARGEST_FILE = 20_000_000
LARGEST_IMAGE = 40_000_000


@dataclass(frozen=True)
class Picture:
    """The image in question (1,C,H,W) in [0,1], its features (1,D), and its place among the test images."""

    image: Tensor
    z: Tensor
    place: int | None = None


def pick(explorer: Explorer, place: int) -> Picture:
    """A test image."""
    image = as_float(explorer.images[place : place + 1].to(explorer.encoder.device))
    return Picture(image, explorer.encoder.features(image), place)


def drop(explorer: Explorer, file: bytes | Path) -> Picture:
    """A stranger's file; what is not an image, or is absurdly large, is refused with a sentence."""
    size = len(file) if isinstance(file, bytes) else file.stat().st_size
    if size > LARGEST_FILE:
        raise DuetError(f"The file has {size / 1e6:.0f} MB; at most {LARGEST_FILE / 1e6:.0f} are taken.")
    height, width = image_size(explorer.encoder)
    try:
        with quiet():
            tall, wide = measure(file)
            if tall * wide > LARGEST_IMAGE:
                most = LARGEST_IMAGE // 1_000_000
                raise DuetError(f"The image has {wide} x {tall} pixels; at most {most} million are taken.")
            pixels = torch.from_numpy(decode(file, explorer.encoder.channels, height if height == width else None))
    except Unreadable as reason:
        raise DuetError(f"This file cannot be read as an image: {reason}.") from None
    image = as_float(pixels.unsqueeze(0).to(explorer.encoder.device))
    if image.shape[2:] != (height, width):
        image = functional.interpolate(image, (height, width), mode="bilinear", antialias=True).clamp(0, 1)
    return Picture(image, explorer.encoder.features(image))
