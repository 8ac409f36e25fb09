"""Where g lives: a circle, on which 0 and 1 are one element, or an interval. Its arithmetic, so that nobody asks which.

`cyclic=True` and `cyclic=False` are short for `Circle()` and `Interval()` wherever a function takes either.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Domain(ABC):
    """The elements g in [0, 1] of a transformation."""

    name: ClassVar[str]
    cyclic: ClassVar[bool]
    least_bins: ClassVar[int]
    """With fewer bins g cannot be read off their masses."""

    @abstractmethod
    def wrap(self, g: Tensor) -> Tensor:
        """The element that any number stands for: modulo 1 on the circle, the nearest in [0, 1] on the interval."""

    @abstractmethod
    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """a - b; on the circle the short way round, in [-1/2, 1/2]."""

    @abstractmethod
    def grid(self, n: int, within: tuple[float, float] = (0.0, 1.0)) -> Tensor:
        """n elements, evenly apart over the whole circle, or between two elements of the interval: (n,)."""

    @abstractmethod
    def terms(self, order: int) -> int:
        """Number of functions in `basis` up to that frequency or degree."""

    @abstractmethod
    def basis(self, by: Tensor, terms: int) -> Tensor:
        """Functions of a difference: Fourier on the circle, powers on the interval: (N,) -> (N, terms)."""

    @abstractmethod
    def coordinates(self, g: Tensor) -> Tensor:
        """What a linear map can predict: (cos, sin) of 2 pi g, or g itself: (n,) -> (n, 2) or (n, 1)."""

    @abstractmethod
    def from_coordinates(self, point: Tensor) -> Tensor:
        """The g in [0, 1] nearest to predicted coordinates: (n, 2) or (n, 1) -> (n,)."""

    @abstractmethod
    def mean(self, masses: Tensor, centres: Tensor) -> Tensor:
        """The expectation of masses at `centres`, on circles the barycentre's angle: (..., bins), (bins,) -> (...)."""

    @abstractmethod
    def correlate(self, p: Tensor, q: Tensor) -> Tensor:
        """D_k = sum_i p_i q_(i + k) over all lags k: (B, bins) twice -> (B, bins), lag 0 first; (B, 2 bins - 1) on the
        interval, lag 0 in the middle."""

    @abstractmethod
    def spread_out(self, n: int, count: int) -> Tensor:
        """`count` of n places on a grid, evenly apart: (count,)."""

    @abstractmethod
    def pieces(self, low: float, high: float, whole: float = 1.0) -> list[tuple[float, float]]:
        """What of a line from 0 to `whole` lies from low to high: cut off at its ends, on the circle around them."""

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """|a - b|, on the circle the short way round."""
        return self.difference(a, b).abs()

    def nearest(self, g: Tensor, elements: Tensor) -> Tensor:
        """Index of the element that lies nearest: (n,), (k,) -> (n,)."""
        return self.distance(g.unsqueeze(-1), elements).argmin(-1)

    def differences(self, elements: Sequence[float]) -> Tensor:
        """The distinct b - a of a finite group's elements, float64: (K,)."""
        e = torch.tensor(list(elements), dtype=torch.float64, device="cpu")
        apart = (e.unsqueeze(0) - e.unsqueeze(1)).flatten().round(decimals=6)
        # Rounded again: -0.8 and 0.2 are one difference, and 1 - 0.8 is not 0.2 to the last bit.
        distinct: Tensor = torch.unique(self._reduce(apart).round(decimals=6))
        return distinct

    def _reduce(self, difference: Tensor) -> Tensor:
        return difference


@dataclass(frozen=True)
class Circle(Domain):
    """g and g + 1 are one element."""

    name: ClassVar[str] = "circle"
    cyclic: ClassVar[bool] = True
    least_bins: ClassVar[int] = 3  # two cannot tell g from its mirror image

    def wrap(self, g: Tensor) -> Tensor:
        g = g - g.floor()
        return torch.where(g < 1, g, g - 1)  # the remainder of a tiny negative number rounds to 1, which is 0

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        gap = a - b
        return gap - gap.round()

    def grid(self, n: int, within: tuple[float, float] = (0.0, 1.0)) -> Tensor:
        return torch.arange(n) / n

    def terms(self, order: int) -> int:
        return 2 * order + 1

    def basis(self, by: Tensor, terms: int) -> Tensor:
        """1, cos 2 pi k by, sin 2 pi k by for k = 1, 2, ..."""
        angles = 2 * math.pi * by.unsqueeze(-1) * torch.arange(1, terms // 2 + 1, dtype=by.dtype, device=by.device)
        return torch.cat([torch.ones_like(by).unsqueeze(-1), angles.cos(), angles.sin()], -1)

    def coordinates(self, g: Tensor) -> Tensor:
        angle = 2 * math.pi * g
        return torch.stack([angle.cos(), angle.sin()], 1)

    def from_coordinates(self, point: Tensor) -> Tensor:
        return (torch.atan2(point[:, 1], point[:, 0]) / (2 * math.pi)).remainder(1)

    def mean(self, masses: Tensor, centres: Tensor) -> Tensor:
        angles = 2 * math.pi * centres
        x, y = (masses * angles.cos()).sum(-1), (masses * angles.sin()).sum(-1)
        return torch.atan2(y, x) / (2 * math.pi)

    def correlate(self, p: Tensor, q: Tensor) -> Tensor:
        return _windows(torch.cat([q, q[..., :-1]], -1), p)

    def spread_out(self, n: int, count: int) -> Tensor:
        return torch.arange(count) * n // count

    def pieces(self, low: float, high: float, whole: float = 1.0) -> list[tuple[float, float]]:
        if high - low >= whole:
            return [(0.0, whole)]
        if low < 0:
            return [(0.0, high), (low + whole, whole)]
        return [(low, whole), (0.0, high - whole)] if high > whole else [(low, high)]

    def _reduce(self, difference: Tensor) -> Tensor:
        return difference.remainder(1)


@dataclass(frozen=True)
class Interval(Domain):
    """g from 0 to 1, with two ends."""

    name: ClassVar[str] = "interval"
    cyclic: ClassVar[bool] = False
    least_bins: ClassVar[int] = 2

    def wrap(self, g: Tensor) -> Tensor:
        return g.clamp(0, 1)

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b

    def grid(self, n: int, within: tuple[float, float] = (0.0, 1.0)) -> Tensor:
        return torch.linspace(*within, n)

    def terms(self, order: int) -> int:
        return order + 1

    def basis(self, by: Tensor, terms: int) -> Tensor:
        """1, by, by^2, ..."""
        return by.unsqueeze(-1) ** torch.arange(terms, dtype=by.dtype, device=by.device)

    def coordinates(self, g: Tensor) -> Tensor:
        return g.unsqueeze(1)

    def from_coordinates(self, point: Tensor) -> Tensor:
        return point[:, 0].clamp(0, 1)

    def mean(self, masses: Tensor, centres: Tensor) -> Tensor:
        return (masses * centres).sum(-1)

    def correlate(self, p: Tensor, q: Tensor) -> Tensor:
        bins = p.shape[-1]
        return _windows(F.pad(q, (bins - 1, bins - 1)), p)

    def spread_out(self, n: int, count: int) -> Tensor:
        return torch.linspace(0, n - 1, count).round().long()

    def pieces(self, low: float, high: float, whole: float = 1.0) -> list[tuple[float, float]]:
        return [(max(0.0, low), min(whole, high))]


Topology: TypeAlias = "Domain | bool"
"""A domain, or the short form: True for the circle, False for the interval."""


def as_domain(cyclic: Topology) -> Domain:
    """The domain itself, also from its short form."""
    if isinstance(cyclic, Domain):
        return cyclic
    return Circle() if cyclic else Interval()


def _windows(q: Tensor, p: Tensor) -> Tensor:
    # Window k holds q_(i + k) for every i. Products of masses cannot be negative; an FFT's rounding can.
    return (q.unfold(-1, p.shape[-1], 1) @ p.unsqueeze(-1)).squeeze(-1)
