"""The peak of a score that is known on a grid: one matrix product, one argmax, one polynomial.

Made of products and gathers only, so that it compiles, exports and differentiates.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..domain import Domain

RADIUS = 3  # neighbours on either side through which the polynomial goes
NEWTON_STEPS = 4


def grid(points: int, domain: Domain) -> Tensor:
    """k / points for the whole circle or interval, and RADIUS more on either side: (K,) float64 on the CPU."""
    last = last_point(points, domain)
    return torch.arange(-RADIUS, last + RADIUS + 1, dtype=torch.float64, device="cpu") / points


def last_point(points: int, domain: Domain) -> int:
    """The last k of a grid: on the circle the one before the first comes again."""
    return points - 1 if domain.cyclic else points


def likelihood_table(log_masses: Callable[[Tensor, int], Tensor], bins: int, g: Tensor) -> Tensor:
    """log masses of every bin at every g of the grid, (bins, K), each row less its mean.

    A number taken from a row moves all scores alike and so no peak; what is left keeps its digits in float32.
    """
    table = log_masses(g, bins).T
    return table - table.mean(-1, keepdim=True)


def affinity_table(log_masses: Callable[[Tensor, int], Tensor], bins: int, g: Tensor) -> Tensor:
    """Square roots of the masses of every bin at every g of the grid, each row less its mean: (bins + 1, K).

    The last row is their sum over the bins, which the others are freed from: it multiplies the mean of the weights, and
    they what is left of them. So nearly equal weights keep their digits in float32.
    """
    table = (log_masses(g, bins).T / 2).exp()
    table = table - table.mean(-1, keepdim=True)
    total = table.sum(0, keepdim=True)
    return torch.cat([table - total / bins, total])


def find_peak(weights: Tensor, table: Tensor, points: int) -> Tensor:
    """The g that maximises sum_j weights_j table_j(g): (..., rows), (rows, K) -> (...), not yet wrapped or clamped."""
    scores = weights @ table
    best = scores[..., RADIUS:-RADIUS].argmax(-1, keepdim=True)
    stencil = torch.arange(2 * RADIUS + 1, device=weights.device)
    near = scores.gather(-1, best + stencil)
    slope, curvature = _derivatives(near - near[..., RADIUS : RADIUS + 1])
    x = torch.zeros_like(best, dtype=weights.dtype)
    for _ in range(NEWTON_STEPS):
        # All but the last step are found, not differentiated: at a root one step carries the whole gradient.
        x = _newton_step(x.detach(), slope, curvature)
    return ((best + x) / points).squeeze(-1)


def interpolate(near: Tensor, x: Tensor) -> Tensor:
    """The polynomial through `near`, values at -RADIUS ... RADIUS, at x: (..., 2 RADIUS + 1), (..., 1) -> (...)."""
    powers = x ** torch.arange(2 * RADIUS + 1, dtype=x.dtype, device=x.device)
    return (near @ _COEFFICIENTS.to(near) * powers).sum(-1)


def _interpolation() -> tuple[Tensor, Tensor, Tensor]:
    """Matrices from values at -RADIUS ... RADIUS to the coefficients, lowest first, of the polynomial through them, of
    its first and of its second derivative. Made once, so that no program holds their making."""
    at = torch.arange(-RADIUS, RADIUS + 1, dtype=torch.float64, device="cpu")
    powers = torch.arange(2 * RADIUS + 1, dtype=torch.float64, device="cpu")
    coefficients = torch.linalg.inv(at.unsqueeze(-1) ** powers).T
    slope = coefficients[:, 1:] * powers[1:]
    return coefficients.contiguous(), slope.contiguous(), (slope[:, 1:] * powers[1:-1]).contiguous()


_COEFFICIENTS, _SLOPE, _CURVATURE = _interpolation()


def _derivatives(near: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients, lowest first, of the first and second derivative of the polynomial through `near`."""
    return near @ _SLOPE.to(near), near @ _CURVATURE.to(near)


def _newton_step(x: Tensor, slope: Tensor, curvature: Tensor) -> Tensor:
    powers = x ** torch.arange(slope.shape[-1], dtype=x.dtype, device=x.device)
    s = (slope * powers).sum(-1, keepdim=True)
    # Where the score is flat the peak stays on the grid instead of becoming 0 / 0.
    c = (curvature * powers[..., :-1]).sum(-1, keepdim=True).clamp(max=-(torch.finfo(x.dtype).eps ** 2))
    return (x - s / c).clamp(-1, 1)
