"""Gauss-Legendre quadrature in log space, for densities of the form exp(kappa cos)."""

import functools
import math

import torch
from torch import Tensor

# Below its largest value by this many nats an integrand no longer counts in double precision: exp(-40) = 4e-18.
DEPTH = 40.0


def gauss_legendre(order: int) -> tuple[Tensor, Tensor]:
    """Nodes in (-1, 1) and weights (summing to 2) of the rule with `order` points, by Golub and Welsch."""
    k = torch.arange(1, order, dtype=torch.float64, device="cpu")
    off_diagonal = k / (4 * k**2 - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1))
    return nodes, 2 * vectors[0] ** 2


# Where the exponent moves by at most GENTLE nats inside a bin, few points reach double precision.
GENTLE = 6.0
# Up to this kappa the density is at least exp(-2 kappa) of its peak everywhere: no need to add in log space.
BROAD = 100.0
_FEW = gauss_legendre(12)
_MANY = gauss_legendre(40)


def log_von_mises_integrals(g: Tensor, kappa: float, bins: int) -> Tensor:
    """log of the integral of exp(kappa (cos 2 pi (x - g) - 1)) over each of `bins` intervals of the circle.

    (...) float64 -> (..., bins). The relative error is near 1e-12 also where the integral itself would underflow.
    """
    change = 2 * math.pi * kappa / bins  # the most that the exponent can move inside a bin
    if change <= GENTLE and kappa <= BROAD:
        return _log_broad_integrals(g, kappa, bins)
    half = 0.5 / bins
    centres = (2 * torch.arange(bins, dtype=g.dtype, device=g.device) + 1) * half
    away = centres - g.detach().unsqueeze(-1)
    away = away - away.round()  # signed distance from the peak to the bin's centre, in [-1/2, 1/2]
    side = torch.where(away < 0, -1.0, 1.0)
    start, stop = away.abs() - half, away.abs() + half

    nodes, weights = _FEW if change <= GENTLE else _MANY
    if change <= DEPTH:
        start, stop = start.unsqueeze(-1), stop.unsqueeze(-1)
    else:
        start, stop = _where_it_counts(start, stop, kappa)
    nodes, weights = nodes.to(g), weights.to(g)

    width = ((stop - start) / 2).unsqueeze(-1)
    points = ((stop + start) / 2).unsqueeze(-1) + width * nodes  # (..., bins, pieces, nodes), distances from the peak
    # The points stay where they are on the circle when g moves, so the derivative is that under the integral sign.
    drift = side.unsqueeze(-1).unsqueeze(-1) * (g - g.detach())[..., None, None, None]
    exponent = -2 * kappa * torch.sin(math.pi * (points - drift)).square()
    return torch.logsumexp((exponent + (width * weights).log()).flatten(-2), -1)


def _log_broad_integrals(g: Tensor, kappa: float, bins: int) -> Tensor:
    """The same where nothing is small: cos(a - b) = cos a cos b + sin a sin b, and the points a are those of any g."""
    # A traced program holds the rule's own recipe: a cache would put traced tensors into later eager calls.
    build = _broad_rule if torch.compiler.is_compiling() else _cached_broad_rule
    waves, weights = build(kappa, bins, g.dtype, g.device)
    angle = 2 * math.pi * g
    density = (torch.stack([angle.cos(), angle.sin()], -1) @ waves).exp()  # times exp(kappa)
    return (density.reshape(*g.shape, bins, len(weights)) @ weights).log() - kappa


def _broad_rule(kappa: float, bins: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """kappa cos and kappa sin of every point of every bin: (2, bins * points), and the points' weights: (points,)."""
    nodes, weights = _FEW
    centres = torch.arange(bins, dtype=nodes.dtype).unsqueeze(-1) + 0.5
    points = (2 * math.pi / bins) * (centres + nodes / 2).flatten()
    waves = kappa * torch.stack([points.cos(), points.sin()])
    return waves.to(device, dtype), (weights / (2 * bins)).to(device, dtype)


@functools.lru_cache(maxsize=64)
def _cached_broad_rule(kappa: float, bins: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    # A tensor born in inference mode could not take part in a later backward pass.
    with torch.inference_mode(False):
        return _broad_rule(kappa, bins, dtype, device)


def _where_it_counts(start: Tensor, stop: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """The parts of [start, stop] within DEPTH nats of the bin's largest density: (..., bins) -> two (..., bins, 2).

    A bin may reach beyond the antipode at 1/2, where the density grows again: that part is the second piece,
    and empty in the other bins.
    """
    far = stop.clamp(min=0.5)
    # Distance from the peak, at most 1/2, where the density is DEPTH nats below that at the piece's nearer end.
    nearest = torch.stack([start.clamp(min=0), 1 - far], -1)
    squared_sine = torch.sin(math.pi * nearest).square() + DEPTH / (2 * kappa)
    reach = torch.asin(squared_sine.clamp(max=1).sqrt()) / math.pi
    low = torch.stack([torch.maximum(start, -reach[..., 0]), (1 - reach[..., 1]).clamp(min=0.5)], -1)
    high = torch.stack([torch.minimum(stop, reach[..., 0]), far], -1)
    return low, high
