"""Standardisation: by which mean and by which scale features are made comparable."""

from __future__ import annotations

import torch
from torch import Tensor


def standard_scale(mean: Tensor, deviation: Tensor) -> Tensor:
    """What to divide by: the deviation, or 1 where a feature has nothing but rounding: (D,), (D,) -> (D,)."""
    varies = deviation > 1e-6 * (mean.abs() + deviation.max())
    return torch.where(varies, deviation, torch.ones_like(deviation))


def standardise(z: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Features, and others alike, less the mean of the first and over its spread: (N, D), ... -> (N, D), ..."""
    mean = z.mean(0)
    scale = standard_scale(mean, z.std(0))
    return tuple((part - mean) / scale for part in (z, *others))
