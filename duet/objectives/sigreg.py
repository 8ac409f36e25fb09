"""SIGReg: views of an image agree, and the features of the batch look Gaussian from every direction."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ..device import full_precision
from ..error import DuetError
from .contrast import register_objective
from .joined import join_views

# The trapezoid rule at 10 nodes on [-3, 3]. The integrand is even: 5 nodes count twice, those at the ends half of that.
STEP = 2 / 3
NODES = {t: STEP * (1 if t == 3 else 2) for t in (1 / 3, 1.0, 5 / 3, 7 / 3, 3.0)}


@register_objective
def sigreg(
    first: Tensor,
    second: Tensor,
    *others: Tensor,
    gather: Callable[[Tensor], Tensor] | None = None,
    weight: float = 10.0,
    slices: int = 256,
) -> Tensor:
    """mse(z_1, z_2) + weight (EP(z_1) + EP(z_2)) / 2, EP the Epps-Pulley distance from N(0, 1) over directions.

    EP(Z) = mean over `slices` random unit directions a of the integral over [-3, 3] of w(t) |phi(t) - exp(-t^2 / 2)|^2,
    phi(t) = mean_n exp(i t z_n . a) over the rows of all ranks (`gather`), w(t) = exp(-t^2 / 2): (N, D) each. The
    directions are drawn anew in every call, from torch's global generator; all ranks take those of the first. Of more
    than two views it is the mean over pairs.
    """
    if slices < 1:
        raise DuetError(f"slices must be at least 1 direction, not {slices}")
    with full_precision(first):
        z = join_views([first, second, *others], gather)  # (V, N, D)
        # Twice the variance over views is the mean over pairs of the squared difference.
        mse = 2 * z.var(dim=0).mean()
        return mse + weight * _epps_pulley(z @ _directions(z, slices, gather).T)


def _directions(z: Tensor, slices: int, gather: Callable[[Tensor], Tensor] | None) -> Tensor:
    """Unit vectors, the same on all ranks: (V, N, D) -> (slices, D)."""
    with torch.no_grad():
        drawn = torch.randn(slices, z.shape[2], dtype=z.dtype).to(z.device)  # one stream of numbers on every device
        return F.normalize(drawn if gather is None else gather(drawn)[:slices], dim=1)


def _epps_pulley(samples: Tensor) -> Tensor:
    """The mean over views and directions of the integral: (V, N, slices) -> ()."""
    total = samples.new_zeros(())
    for t, width in NODES.items():
        angles = t * samples
        normal = math.exp(-(t**2) / 2)
        distance = (angles.cos().mean(1) - normal).square() + angles.sin().mean(1).square()
        total = total + width * normal * distance.mean()
    return total
