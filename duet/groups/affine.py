"""Affine maps between image frames, and the one resampling that carries them out.

A frame is [-1, 1] x [-1, 1] from the outer edge of the first pixel to that of the last; x runs right, y runs down.
A map sends the coordinates of an output pixel to those of the input point that is shown there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
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
    product[:, :, 2] += then[:, :, 2]
    return product


@dataclass(frozen=True)
class Warp:
    """Maps composed into one (B,2,3), and for each that can leave its frame the map to that frame and its window."""

    matrix: Tensor
    windows: tuple[Affine, ...] = ()

    def __getitem__(self, rows: slice) -> Warp:
        return Warp(self.matrix[rows], tuple(window[rows] for window in self.windows))

    def to(self, device: torch.device) -> Warp:
        """The same warp on another device."""
        return Warp(self.matrix.to(device), tuple(window.to(device) for window in self.windows))


def fuse(maps: Sequence[Affine]) -> Warp:
    """Maps that are applied one after another as one warp."""
    total = maps[-1].matrix
    windows = []
    for number, affine in enumerate(reversed(maps)):
        total = compose(total, affine.matrix) if number else total
        if affine.window is not None:
            windows.append(Affine(total, affine.window))
    return Warp(total, tuple(windows))


def resample(images: Tensor, warp: Warp, size: tuple[int, int]) -> Tensor:
    """Carry out a warp by one bilinear resampling: (B,C,H,W) -> (B,C,*size).

    Points outside a window are black; inside it the image's edge pixels are continued.
    """
    height, width = size
    # A smaller output would skip input pixels: take several points a pixel and average them.
    over = max(1, round(images.shape[2] / height), round(images.shape[3] / width))
    height, width = height * over, width * over
    grid = _coordinates(warp.matrix, height, width).permute(0, 2, 3, 1).to(images.dtype)
    out = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    for window in warp.windows:
        # In place is safe: neither side of a product with a constant is kept for the gradient.
        out.mul_(_visible(window, height, width).to(out.dtype))
    return F.avg_pool2d(out, over) if over > 1 else out


def disc(images: Tensor) -> Tensor:
    """1 inside the disc inscribed in the frame, else 0: (B,C,H,W) -> (1,1,H,W)."""
    still = Affine(torch.eye(2, 3, device=images.device).unsqueeze(0), "disc")
    return _visible(still, images.shape[2], images.shape[3]).to(images.dtype)


def permute_pixels(images: Tensor, matrix: Tensor) -> Tensor:
    """Carry out maps that only permute the pixels of square images (quarter turns, flips), without rounding."""
    side = images.shape[-1]
    centres = torch.arange(side, device=images.device) * 2 - (side - 1)
    x, y = centres.view(1, 1, -1), centres.view(1, -1, 1)
    entries = matrix.round().long().view(-1, 6, 1, 1)
    column = (entries[:, 0] * x + entries[:, 1] * y + (side - 1)) // 2
    row = (entries[:, 3] * x + entries[:, 4] * y + (side - 1)) // 2
    index = (row * side + column).flatten(1).unsqueeze(1).expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, index).view_as(images)


def _coordinates(matrix: Tensor, height: int, width: int) -> Tensor:
    """Where each output pixel's centre is sent: (B,2,3) -> (B,2,H,W), x before y."""
    # A traced program makes its own: a cache would put traced tensors into later eager calls.
    centres = _centres if torch.compiler.is_compiling() else _cached_centres
    x, y = (centres(side, matrix.dtype, matrix.device) for side in (width, height))
    across = (matrix[:, :, 0, None] * x).unsqueeze(2)  # (B,2,1,W)
    down = (matrix[:, :, 1, None] * y + matrix[:, :, 2, None]).unsqueeze(3)  # (B,2,H,1)
    return across + down


def _centres(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The centres of n pixels in the frame: (n,)."""
    return (torch.arange(n, device=device, dtype=dtype) * 2 + (1 - n)) / n


@lru_cache(maxsize=64)
def _cached_centres(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    # A tensor born in inference mode could not take part in a later backward pass.
    with torch.inference_mode(False):
        return _centres(n, dtype, device)


def _visible(window: Affine, height: int, width: int) -> Tensor:
    """1 where the point under a pixel lies in the window, with a hair's breadth for rounding, else 0: (B,1,H,W)."""
    points = _coordinates(window.matrix.detach(), height, width)
    if window.window == "frame":
        x, y = points.abs_().split_with_sizes([1, 1], dim=1)
        # In place the comparison writes numbers, not truth values: several times faster, and ready to multiply with.
        return torch.maximum(x, y).le_(1 + 1e-5)
    # The disc is round in pixels, so the longer side's coordinate is stretched.
    short = min(height, width)
    x, y = points.split_with_sizes([1, 1], dim=1)
    return ((x * (width / short)) ** 2 + (y * (height / short)) ** 2).le_(1 + 1e-5)
