"""Barlow Twins: the cross-correlation of two views' features is the identity matrix."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import torch
from torch import Tensor

from ..device import full_precision
from .contrast import register_objective
from .joined import join_views

EPS = 1e-5  # as batch norm adds it to a variance


@register_objective
def barlow_twins(
    first: Tensor,
    second: Tensor,
    *others: Tensor,
    gather: Callable[[Tensor], Tensor] | None = None,
    redundancy: float = 5e-3,
    scale: float = 0.1,
) -> Tensor:
    """scale * (sum_i (1 - C_ii)^2 + redundancy * sum_(i != j) C_ij^2), C = Z_1^T Z_2 / N of standardised features.

    Features are standardised over the rows of all ranks (`gather`), with the biased variance, as batch norm does:
    (N, D) each. Of more than two views it is the mean over pairs.
    """
    with full_precision(first):
        z = join_views([first, second, *others], gather)  # (V, N, D)
        centred = z - z.mean(dim=1, keepdim=True)
        z = centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + EPS)
        losses = []
        for one, other in combinations(z, 2):
            correlation = one.T @ other / len(one)  # (D, D)
            diagonal = correlation.diagonal()
            off_diagonal = correlation.square().sum() - diagonal.square().sum()
            losses.append((1 - diagonal).square().sum() + redundancy * off_diagonal)
        return scale * torch.stack(losses).mean()
