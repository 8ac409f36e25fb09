"""By how much codes of pure harmonics are turned against others: the best match, and the likelihood around it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..device import widest

GRID = 360  # points of the curve that is searched
NEWTON_STEPS = 3
POINTS = 32  # of a coarser grid, for every wave of the highest harmonic
ROWS = 2048  # curves held at a time


def phases(by: Tensor, harmonic: Tensor) -> Tensor:
    """exp(2 pi i k by): (B,), (K,) -> complex (B, K)."""
    wide = widest(by)
    angle = 2 * math.pi * by.to(wide).unsqueeze(-1) * harmonic.to(wide)
    return torch.complex(angle.cos(), angle.sin())


def turn_grid(like: Tensor, count: int) -> Tensor:
    """The turns at which a curve is known: the `count` elements of a finite group, or GRID points of the circle."""
    return _grid(like, count or GRID)


def likelihood_curve(sums: Tensor, harmonic: Tensor, count: int) -> Tensor:
    """A log likelihood, 2 Re sum_k S_k exp(-2 pi i k by), over the grid: (B, K), (K,) -> (B, points)."""
    return _curve(sums, harmonic, turn_grid(sums, count))


def best_turn(sums: Tensor, harmonic: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Where Re sum_k S_k exp(-2 pi i k by) is largest, and how wide that peak is: (B, K), (K,) -> (B,), (B,)."""
    grid = turn_grid(sums, count)
    curve = _curve(sums, harmonic, grid)
    best = _peak(sums, harmonic, count, grid, curve)
    away = grid - best.unsqueeze(1)
    spread = (curve.softmax(1) * (away - away.round()).square()).sum(1).sqrt()
    return half_open(best), spread


def likeliest_turn(sums: Tensor, harmonic: Tensor, count: int) -> Tensor:
    """Where Re sum_k S_k exp(-2 pi i k by) is largest, found on a coarser grid: (B, K), (K,) -> (B,)."""
    grid = _grid(sums, count or min(GRID, POINTS * int(harmonic.max())))
    parts = torch.split(sums, ROWS)
    return half_open(torch.cat([_peak(part, harmonic, count, grid, _curve(part, harmonic, grid)) for part in parts]))


def _peak(sums: Tensor, harmonic: Tensor, count: int, grid: Tensor, curve: Tensor) -> Tensor:
    """The highest point of each curve on the grid, on the circle refined by Newton's method: (B,)."""
    kind = sums.real.dtype
    best = grid[curve.argmax(1)]
    if count == 0:
        angular = 2 * math.pi * harmonic.to(kind)
        for _ in range(NEWTON_STEPS):
            wave = sums * phases(best, -harmonic).to(sums.dtype)
            slope, bend = (wave.imag * angular).sum(1), -(wave.real * angular.square()).sum(1)
            step = torch.where(bend < 0, -slope / bend, torch.zeros_like(slope))
            best = best + step.clamp(-0.5 / len(grid), 0.5 / len(grid))
    return best


def _grid(like: Tensor, points: int) -> Tensor:
    return torch.arange(points, device=like.device, dtype=like.real.dtype) / points


def _curve(sums: Tensor, harmonic: Tensor, grid: Tensor) -> Tensor:
    waves = phases(grid, harmonic).to(sums.dtype)
    # In real products: S_k conj(wave_k) without the imaginary half.
    return 2 * (torch.view_as_real(sums).flatten(1) @ torch.view_as_real(waves).flatten(1).T)


def half_open(by: Tensor) -> Tensor:
    """The same turns in (-1/2, 1/2]."""
    centred = by - by.round()  # in [-1/2, 1/2], both ends one element
    return torch.where(centred <= -0.5, centred + 1, centred)


def sum_by_harmonic(products: Tensor, harmonic: Tensor) -> tuple[Tensor, Tensor]:
    """Products of components summed over each harmonic, and which harmonics these are: (B, M), (M,) -> (B, K), (K,)."""
    kinds = torch.unique(harmonic)
    chosen = (harmonic.unsqueeze(1) == kinds).to(products.dtype)  # (M, K)
    return products @ chosen, kinds
