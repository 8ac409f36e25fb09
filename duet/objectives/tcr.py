"""Total coding rate: views of an image agree with their mean, and each view's features fill the space."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ..device import full_precision
from ..error import DuetError
from .contrast import register_objective
from .joined import join_views, smaller_gram


@register_objective
def tcr(
    first: Tensor,
    second: Tensor,
    *others: Tensor,
    gather: Callable[[Tensor], Tensor] | None = None,
    weight: float = 200.0,
    eps: float = 0.2,
) -> Tensor:
    """-weight mean_i cos(z_i, mean of the image's views) - mean over views of logdet(I + D / (N eps) Z^T Z) / 2.

    The rows of a view Z (N, D) have length 1; Z holds the rows of all ranks (`gather`). Any number of views: the mean
    is that of all of them.
    """
    if eps <= 0:
        raise DuetError(f"eps must be positive, not {eps}")
    with full_precision(first):
        z = F.normalize(join_views([first, second, *others], gather), dim=-1)  # (V, N, D)
        agreement = (z * F.normalize(z.mean(0), dim=-1)).sum(-1).mean()
        gram = smaller_gram(z)
        gram = torch.eye(gram.shape[-1], dtype=z.dtype, device=z.device) + z.shape[2] / (z.shape[1] * eps) * gram
        # Half the log-determinant is the sum of the factor's log diagonal. Without a check, NaN stays NaN.
        factor: Tensor = torch.linalg.cholesky_ex(gram).L
        rate = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1).mean()
        return -weight * agreement - rate
