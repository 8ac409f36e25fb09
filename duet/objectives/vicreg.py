"""VICReg: views of an image agree, every feature varies over the batch, and no two features correlate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ..device import full_precision
from .contrast import register_objective
from .joined import join_views, smaller_gram

EPS = 1e-4  # keeps the slope of the square root finite where a feature is constant


@register_objective
def vicreg(
    first: Tensor,
    second: Tensor,
    *others: Tensor,
    gather: Callable[[Tensor], Tensor] | None = None,
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
) -> Tensor:
    """invariance mse(z_1, z_2) + variance (v(z_1) + v(z_2)) + covariance (c(z_1) + c(z_2)).

    v(Z) = mean_d relu(1 - sqrt(var_d + 1e-4)) and c(Z) = (1 / D) sum_(i != j) C_ij^2, C the covariance of Z's columns:
    (N, D) each. The variance terms are added, not halved. Both statistics are of the rows of all ranks (`gather`). Of
    more than two views it is the mean over pairs.
    """
    with full_precision(first):
        z = join_views([first, second, *others], gather)  # (V, N, D)
        # Twice the variance over views is the mean over pairs of the squared difference.
        mse = 2 * z.var(dim=0).mean()
        var = z.var(dim=1)
        spread = F.relu(1 - torch.sqrt(var + EPS)).mean()
        squares = (smaller_gram(z - z.mean(dim=1, keepdim=True)) / (z.shape[1] - 1)).square().sum((1, 2))
        correlation = (squares - var.square().sum(1)).mean() / z.shape[2]
        return invariance * mse + 2 * (variance * spread + covariance * correlation)
