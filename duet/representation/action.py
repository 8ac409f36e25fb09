"""The paper's action T_g on features (section 4.6): it swaps the column means for those of the target at g."""

import torch
from torch import Tensor

from .layout import Axis, Layout
from .target import Estimate, wrap


def recover(z: Tensor, layout: Layout, axis: str | Axis) -> Estimate:
    """g of the image, read off softmax(group_logits(z)): (B, dim) -> Estimate of (B,), (B,)."""
    return layout.find(axis).target.read(layout.group_logits(z, axis))


def act(z: Tensor, layout: Layout, axis: str | Axis, g: float | Tensor, beta: float | Tensor | None = None) -> Tensor:
    """T_g(z)_ij = z_ij - mu_j + log Q_j(g) - mean_k log Q_k(g) + beta: to the absolute element g, (B, dim) -> (B, dim).

    `beta`, one number per sample, becomes the mean of the group logits; by default it stays what it is, and so does
    the content.
    """
    own = layout.find(axis)
    logits = layout.group_logits(z, own)  # eq. T_g holds for column means, not sums
    wanted = own.target.log_masses(_per_sample(g, logits), own.bins)
    level = logits.mean(-1) if beta is None else _per_sample(beta, logits)
    wanted = wanted - wanted.mean(-1, keepdim=True) + level.unsqueeze(-1)
    return layout.add(z, own, wanted - logits).to(z.dtype)


def shift(z: Tensor, layout: Layout, axis: str | Axis, by: float | Tensor) -> Tensor:
    """T of recover(z).g + by: (B, dim) -> (B, dim); wraps on the circle, clamps to [0, 1] on the interval."""
    own = layout.find(axis)
    g = recover(z, layout, own).g
    g = g + _per_sample(by, g)
    return act(z, layout, own, wrap(g) if own.target.cyclic else g.clamp(0, 1))


def _per_sample(value: float | Tensor, like: Tensor) -> Tensor:
    """(B,) on the device and in the precision of `like` (B, ...), from a number, a (1,) or a (B,) tensor."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device).expand(like.shape[0])
