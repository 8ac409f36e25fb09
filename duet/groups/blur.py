"""Gaussian blur: a nuisance of the augmentation stack, not one of the paper's groups."""

from __future__ import annotations

import torch
from torch import Tensor

from .group import Group


class Blur(Group):
    """Gaussian blur with a 3 x 3 kernel; the edge is reflected. At g = 0 the kernel's sides vanish: the identity."""

    name = "blur"
    unit = "pixels"
    span = (0.1, 2.0)

    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Blur along x, then along y: (B,C,H,W), (B,) -> (B,C,H,W)."""
        side = torch.exp(-0.5 / self.parameter(g) ** 2)
        side = (side / (1 + 2 * side)).to(images.dtype).view(-1, 1, 1, 1)
        return _smooth(_smooth(images, side, dim=3), side, dim=2)


def _smooth(images: Tensor, side: Tensor, dim: int) -> Tensor:
    """Weights (side, 1 - 2 side, side) along one dimension."""
    n = images.shape[dim]
    if n == 1:
        return images
    share = images * side
    out = images.sub(share, alpha=2)
    out.narrow(dim, 1, n - 1).add_(share.narrow(dim, 0, n - 1))
    out.narrow(dim, 0, n - 1).add_(share.narrow(dim, 1, n - 1))
    # Reflection: beyond the edge pixel comes its only neighbour again.
    out.narrow(dim, 0, 1).add_(share.narrow(dim, 1, 1))
    out.narrow(dim, n - 1, 1).add_(share.narrow(dim, n - 2, 1))
    return out
