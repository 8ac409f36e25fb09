"""A few test images that are read best and worst, kept with the numbers: a page can show them without the data."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..pixels import as_float
from .context import Orbit
from .element import raw_error
from .result import Array

COUNT = 6  # of the best, and of the worst
SIDE = 64  # pixels of the longer side that are kept


def keep_examples(images: Tensor, orbit: Orbit, recovered: Array) -> dict[str, Array]:
    """The images with the smallest and the largest mean error, each at its median error: (N,C,H,W), recovered (n,N).

    `example_g` (2,k,2): true and recovered element of the best and of the worst, the most extreme first;
    `example_true`, `example_recovered` (2,k,C,H,W) uint8: the images moved to them; `example_error` (2,k): in the raw
    unit.
    """
    group, true = orbit.group, orbit.g.cpu().double()
    found = group.domain.wrap(torch.as_tensor(recovered).double().nan_to_num(group.identity))
    error = raw_error(true, found, group)  # (n, N)
    count = min(COUNT, error.shape[1] // 2)
    order = error.mean(0).argsort(stable=True)
    chosen = torch.stack([order[:count], order.flip(0)[:count]])  # (2, k)
    place = error.argsort(dim=0, stable=True)[(len(error) - 1) // 2][chosen]
    g = torch.stack([true[place, chosen], found[place, chosen]], 2)
    pictures = {"example_true": g[..., 0], "example_recovered": g[..., 1]}
    shown = small(as_float(images[chosen.flatten().to(images.device)].cpu()))
    arrays = {name: _moved(shown, elements, orbit) for name, elements in pictures.items()}
    return {**arrays, "example_g": g.numpy(), "example_error": error[place, chosen].numpy()}


def small(images: Tensor) -> Tensor:
    """Images of at most SIDE pixels a side, their shape kept: (N,C,H,W) -> (N,C,h,w)."""
    height, width = images.shape[2:]
    shrink = max(height, width) / SIDE
    if shrink <= 1:
        return images
    return F.interpolate(images, (round(height / shrink), round(width / shrink)), mode="bilinear", antialias=True)


def _moved(images: Tensor, elements: Tensor, orbit: Orbit) -> Array:
    """Images (2 k,C,H,W) at elements (2,k): (2,k,C,H,W) uint8."""
    moved = orbit.group.apply(images.clamp(0, 1), elements.flatten().float())
    pixels: Array = (255 * moved).round().to(torch.uint8).reshape(2, -1, *images.shape[1:]).numpy()
    return pixels
