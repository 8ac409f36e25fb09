"""Images as an encoder wants them: its channels and its size, from images that all encoders share."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..groups.color import LUMA
from ..pixels import as_float

NUMBERS = 2**24  # of pixels that an encoder gets at a time


def fit_images(images: Tensor, channels: int | None, size: tuple[int, int] | None) -> Tensor:
    """Grey or colour as asked, then the centre of the wanted shape, resized: (B,C,H,W) -> (B,channels,*size) in [0,1].

    Resizing averages over what a pixel covers (antialiased), as image libraries do. None leaves things as they are.
    """
    images = as_float(images)
    if channels is not None and channels != images.shape[1]:
        if channels == 1:
            weight = torch.tensor(LUMA, dtype=images.dtype, device=images.device).view(1, 3, 1, 1)
            images = (images * weight).sum(1, keepdim=True)
        else:
            images = images.expand(-1, channels, -1, -1)
    if size is None or tuple(images.shape[2:]) == tuple(size):
        return images
    height, width = images.shape[2:]
    scale = min(height / size[0], width / size[1])
    inner = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
    cut = images[:, :, top : top + inner[0], left : left + inner[1]]
    return F.interpolate(cut, size=size, mode="bilinear", align_corners=False, antialias=True).clamp(0, 1)


def batch_of(channels: int, size: tuple[int, int]) -> int:
    """How many such images to take at a time, so that large ones do not fill the memory."""
    return max(1, min(512, NUMBERS // max(1, channels * size[0] * size[1])))
