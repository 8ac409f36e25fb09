"""Affine maps between image frames, and the one resampling that carries them out.

A frame is [-1, 1] x [-1, 1] from the outer edge of the first pixel to that of the last; x runs right, y runs down.
A map sends the coordinates of an output pixel to those of the input point that is shown there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Window = Literal["frame", "disc"]
"""What of the input frame can be seen: the frame itself, or only the disc inscribed in it. The rest is black."""


@dataclass(frozen=True)
class Affine:
    """A batch of affine maps (B,2,3), and the window through which the input is seen (None: all of it, always)."""

    matrix: Tensor
    window: Window | None = None

    def __getitem__(self, rows: slice) -> Affine:
        return Affine(self.matrix[rows], self.window)

    def to(self, device: torch.device) -> Affine:
        """The same maps on another device."""
        return Affine(self.matrix.to(device), self.window)


def from_entries(xx: Tensor, xy: Tensor, x: Tensor, yx: Tensor, yy: Tensor, y: Tensor) -> Tensor:
    """The matrix [[xx, xy, x], [yx, yy, y]] of every sample: six (B,) -> (B,2,3)."""
    return torch.stack([xx, xy, x, yx, yy, y], dim=1).view(-1, 2, 3)


def compose(first: Tensor, then: Tensor) -> Tensor:
    """The map `then` applied to the result of the map `first`: (B,2,3), (B,2,3) -> (B,2,3)."""
    # Written out, since a matrix product would lose precision under autocast.
    product = then[:, :, 0:1] * first[:, 0:1] + then[:, :, 1:2] * first[:, 1:2]
    return product + torch.cat([torch.zeros_like(then[:, :, :2]), then[:, :, 2:]], dim=2)


def resample(images: Tensor, maps: Sequence[Affine], size: tuple[int, int]) -> Tensor:
    """Apply maps one after another with a single bilinear resampling: (B,C,H,W) -> (B,C,*size).

    Points outside a map's window are black; inside it the image's edge pixels are continued.
    """
    height, width = size
    # A smaller output would skip input pixels: take several points a pixel and average them.
    over = max(1, round(images.shape[2] / height), round(images.shape[3] / width))
    height, width = height * over, width * over
    total: Tensor | None = None
    seen: Tensor | None = None
    for affine in reversed(maps):
        total = affine.matrix if total is None else compose(total, affine.matrix)
        if affine.window is not None:
            visible = _visible(_coordinates(total, height, width), affine.window)
            seen = visible if seen is None else seen & visible
    if total is None:
        raise ValueError("resample needs at least one map")
    grid = _coordinates(total, height, width).permute(0, 2, 3, 1).to(images.dtype)
    out = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    if seen is not None:
        # In place is safe: neither side of a product with a constant is kept for the gradient.
        out.mul_(seen.unsqueeze(1).to(out.dtype))
    return F.avg_pool2d(out, over) if over > 1 else out


def permute_pixels(images: Tensor, matrix: Tensor) -> Tensor:
    """Carry out maps that only permute the pixels of square images (quarter turns, flips), without rounding."""
    side = images.shape[-1]
    centres = torch.arange(side, device=images.device, dtype=torch.float64) * 2 - (side - 1)
    x, y = centres.view(1, 1, -1), centres.view(1, -1, 1)
    entries = matrix.to(torch.float64).round().view(-1, 6, 1, 1)
    column = (entries[:, 0] * x + entries[:, 1] * y + (side - 1)) / 2
    row = (entries[:, 3] * x + entries[:, 4] * y + (side - 1)) / 2
    index = (row * side + column).long().flatten(1).unsqueeze(1).expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, index).view_as(images)


def _coordinates(matrix: Tensor, height: int, width: int) -> Tensor:
    """Where each output pixel's centre is sent: (B,2,3) -> (B,2,H,W), x before y."""
    x = _centres(width, matrix)
    y = _centres(height, matrix)
    across = (matrix[:, :, 0, None] * x).unsqueeze(2)  # (B,2,1,W)
    down = (matrix[:, :, 1, None] * y + matrix[:, :, 2, None]).unsqueeze(3)  # (B,2,H,1)
    return across + down


def _centres(n: int, like: Tensor) -> Tensor:
    return (torch.arange(n, device=like.device, dtype=like.dtype) * 2 + (1 - n)) / n


def _visible(points: Tensor, window: Window) -> Tensor:
    """Whether points (B,2,H,W) lie in the window, with a hair's breadth for rounding: (B,H,W) bool."""
    x, y = points.unbind(1)
    if window == "frame":
        return torch.maximum(x.abs(), y.abs()) <= 1 + 1e-5
    # The disc is round in pixels, so the longer side's coordinate is stretched.
    height, width = points.shape[2:]
    short = min(height, width)
    return (x * (width / short)) ** 2 + (y * (height / short)) ** 2 <= 1 + 1e-5
