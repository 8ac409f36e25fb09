"""Which features move with the group: the share of each one's variance that lies within images, over g."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..device import widest
from ..error import DuetError


class Sensitivity(NamedTuple):
    """Of every feature (D,): the share of its variance that the group explains, and the variance itself."""

    share: Tensor
    variance: Tensor

    def order(self) -> Tensor:
        """The features from the most sensitive to the least; equals as they stand: (D,)."""
        return torch.argsort(self.share, descending=True, stable=True)


def group_share(z: Tensor) -> Sensitivity:
    """share = W / (B + W) from V views of each of N images at random g: z (N, V, D) -> (D,), (D,).

    W = mean over images of the variance of their views, sum (z - mean)^2 / (V - 1): what g does to an image's feature.
    B = variance of the images' means, with N - 1, less W / V, which the means inherit from their views.
    Both are unbiased, and so is their sum, the variance of a view of any image; B is not taken for less than 0.
    """
    if z.ndim != 3 or z.shape[0] < 2 or z.shape[1] < 2:
        raise DuetError(f"a share of variance needs two views of two images at least: (N, V, D), not {tuple(z.shape)}")
    x = z.to(widest(z))
    within = x.var(1).mean(0)
    between = (x.mean(1).var(0) - within / z.shape[1]).clamp(min=0)
    total = within + between
    # Rounding alone makes a constant feature vary a little.
    there = total > (x.abs().amax((0, 1)) * torch.finfo(torch.float32).eps).square()
    return Sensitivity(torch.where(there, within / total.clamp(min=torch.finfo(total.dtype).tiny), 0), total)
