"""Codes of many images brought to one common turn: each is read against their own mean, again and again.

Codes p_n of pure harmonics that are turns of one another, p_n = exp(2 pi i k by_n) mean + noise, fit best where
sum_m w_m |mean_m|^2 is largest, mean = the mean of exp(-2 pi i k by_n) p_n. Turns and mean are found in alternation:
neither step can make it smaller. It has many peaks, so the search begins from many images.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..error import DuetError
from .turn import half_open, likeliest_turn, likelihood_curve, phases, sum_by_harmonic, turn_grid

NEAR = 1 / 8
"""A turn is right if it is not further away than this share of the circle: 45 degrees."""
FEW = 1024  # images on which the search for a start is made
SPLITS = 16  # random splits into halves, over which the probability is averaged
ROUNDS = 100
HELD = 4_000_000  # numbers of codes held at a time
TINY = 1e-300  # no division by 0


class Codes(NamedTuple):
    """Complex p (N, M) of N images, and of each component its harmonic, its weight and whether it is real: (M,).

    `elements` of a finite group; 0 for the circle. Several sets of equally many images may stand in one: (..., N, M).
    """

    p: Tensor
    harmonic: Tensor
    weight: Tensor
    real: Tensor
    elements: int = 0

    def rows(self, which: Tensor) -> Codes:
        """Some of the images, or several sets of them: (n,) or (sets, n)."""
        return self._replace(p=self.p[which])

    def read(self, mean: Tensor) -> Tensor:
        """By how much each image is turned against each mean, by largest likelihood: (..., S, M) -> (..., S, N)."""
        wanted, kinds = self.weight * mean.conj(), torch.unique(self.harmonic)
        sums = [wanted[..., own] @ self.p[..., own].mT for own in self._components(kinds)]
        by = likeliest_turn(torch.stack(sums, -1).flatten(0, -2), kinds, self.elements)
        return by.reshape(sums[0].shape)

    def mean(self, by: Tensor) -> Tensor:
        """The mean of exp(-2 pi i k by) p over the images: (..., S, N) -> (..., S, M)."""
        kinds = torch.unique(self.harmonic)
        found = self.p.new_empty(*by.shape[:-1], self.p.shape[-1])
        for k, own in zip(kinds, self._components(kinds), strict=True):
            found[..., own] = phases(by, -k[None]).squeeze(-1) @ self.p[..., own] / by.shape[-1]
        return found

    def turned_back(self, by: Tensor) -> Tensor:
        """exp(-2 pi i k by) p: (N,) -> (N, M)."""
        return phases(by, -self.harmonic) * self.p

    def score(self, mean: Tensor) -> Tensor:
        """sum_m w_m |mean_m|^2, which is to be large: (..., M) -> (...)."""
        return (self.weight * mean.abs().square()).sum(-1)

    def _components(self, kinds: Tensor) -> list[Tensor]:
        return [(self.harmonic == k).nonzero().squeeze(1) for k in kinds]


class Aligned(NamedTuple):
    """The turn of every image from the common one, in (-1/2, 1/2], and the probability that it is right: (N,), (N,).

    `mean` (M,) is the code that they share, `coherence` its share of their weighted square: 1 for exact copies.
    """

    by: Tensor
    probability: Tensor
    mean: Tensor
    coherence: float


def align_codes(codes: Codes) -> Aligned:
    """Bring the codes of at least two images to one common turn.

    Only differences are known, so the common turn is the one that asks least of the images: the circular mean of `by`
    is 0; in a finite group most images stay as they are. Neither the order of the images nor a turn of all of them
    changes a difference. The order changes probabilities a little, since it decides which splits are drawn.
    """
    p = codes.p
    if len(p) < 2:
        raise DuetError(f"there is nothing to align: it takes at least 2 images, not {len(p)}")
    if not bool(torch.isfinite(torch.view_as_real(p)).all()):
        raise DuetError("the features hold NaN or infinity")
    power = (codes.weight * p.abs().square()).sum(1)
    if not float(power.sum()) > 0:
        raise DuetError("these features do not turn with the images: there is nothing to align them by")
    order = power.argsort(descending=True, stable=True)
    by, mean = (found[0] for found in _settle(codes, _search(codes.rows(order), WHOLE), WHOLE.settled))
    common = _common_turn(by, codes.elements)
    by, mean = half_open(by - common), mean * _phase(common, codes.harmonic)
    if codes.elements:
        by = (by * codes.elements).round() / codes.elements
    return Aligned(by, _probability(codes, by, mean), mean, float(codes.score(mean)) / float(power.mean()))


class Search(NamedTuple):
    """How thoroughly the best mean is searched for."""

    candidates: int  # images that are tried as the mean
    starts: int  # of them, the best, are followed to their end
    settled: float  # a round that gains less than this share is the last


WHOLE = Search(48, 8, 1e-12)
HALF = Search(16, 3, 1e-4)
"""Of the halves whose means only judge turns that are already found."""


def _search(codes: Codes, effort: Search) -> Tensor:
    """A mean to begin with, the best of those that some of the images lead to: (..., 1, M)."""
    few = codes._replace(p=codes.p[..., _spread_out(codes.p.shape[-2], FEW), :])
    means = few.mean(few.read(codes.p[..., _spread_out(codes.p.shape[-2], effort.candidates), :]))
    means = _best(few, means, effort.starts)
    return _best(few, _settle(few, means, effort.settled)[1], 1)


def _best(codes: Codes, means: Tensor, count: int) -> Tensor:
    """Those of largest score, the largest first: (..., S, M) -> (..., count, M)."""
    order = codes.score(means).argsort(dim=-1, descending=True, stable=True)[..., :count]
    return means.take_along_dim(order.unsqueeze(-1), -2)


def _settle(codes: Codes, mean: Tensor, settled: float) -> tuple[Tensor, Tensor]:
    """Turns (..., S, N) and means (..., S, M) in alternation until nothing is gained."""
    score = codes.score(mean).new_full(mean.shape[:-1], -1.0)
    for _ in range(ROUNDS):
        by = codes.read(mean)
        mean = codes.mean(by)
        before, score = score, codes.score(mean)
        if bool((score <= before * (1 + settled)).all()):
            break
    return by, mean


def _common_turn(by: Tensor, elements: int) -> Tensor:
    """The turn () that most images have, or on the circle their mean direction."""
    if elements:
        steps = (by * elements).round().long().remainder(elements)
        return torch.bincount(steps, minlength=elements).argmax().to(by) / elements
    direction = phases(by, by.new_ones(1)).sum()
    return torch.atan2(direction.imag, direction.real) / (2 * torch.pi)


def _probability(codes: Codes, by: Tensor, mean: Tensor) -> Tensor:
    """How much of each image's likelihood lies near its turn, (N,), the mean over random splits of the images.

    A split aligns two halves separately and reads every image against the mean of the half that it is not in, so that
    no image has drawn that mean towards itself. A single split is unstable under noise: a half can settle at any of
    several peaks.
    """
    generator = torch.Generator().manual_seed(0)
    orders = torch.stack([torch.randperm(len(by), generator=generator) for _ in range(SPLITS)])
    sides = [orders[:, 0::2], orders[:, 1::2]]
    means = torch.cat([_means_of_parts(codes, side) for side in sides], 1)  # (SPLITS, 2, M)
    # Each half has found a common turn of its own: `apart` is by how much it differs from that of all.
    apart = codes._replace(p=means.flatten(0, 1)).read(mean.unsqueeze(0)).reshape(SPLITS, 2)
    means = means * phases(-apart, codes.harmonic)
    # What the halves of a split do not share of their means is chance.
    common = (codes.weight * means[:, 0].conj() * means[:, 1]).real.sum(1, keepdim=True)
    shared = (common / codes.score(means).clamp(min=TINY)).clamp(0, 1)
    probability = torch.zeros_like(by)
    for split in range(SPLITS):
        for side, other in ((0, 1), (1, 0)):
            half = sides[side][split]
            against = means[split, other] * shared[split, other]
            probability[half] += _mass_near(codes.rows(half), by[half], against) / SPLITS
    return probability


def _means_of_parts(codes: Codes, parts: Tensor) -> Tensor:
    """The mean that each part of the images is aligned to, from at most FEW of them: (P, n) -> (P, 1, M)."""
    parts = parts[:, :FEW]
    at_once = max(1, HELD // max(1, parts.shape[1] * codes.p.shape[1]))
    return torch.cat([_search(codes.rows(some), HALF) for some in torch.split(parts, at_once)])


def _mass_near(codes: Codes, by: Tensor, mean: Tensor) -> Tensor:
    """Share of the likelihood of turns against `mean` that lies within NEAR of `by`; of a finite group's, at it."""
    rest = codes.turned_back(by) - mean
    # Two images more, of which nothing fits: a few images cannot say how little they vary.
    squares, whole = rest.abs().square().sum(0), codes.p.abs().square().mean(0).clamp(min=TINY)
    variance = (squares + 2 * whole) / (len(rest) + 2)
    weight = torch.where(codes.real, 0.5, 1.0) / variance
    # Components are not independent: the likelihood at `by` varies more than it would if they were, and is worth less.
    varies = (2 * (weight * mean.conj() * rest).sum(1).real).var(unbiased=False)
    expected = (2 * weight * mean.abs().square()).sum().clamp(min=TINY)
    # Nor is an image that fits worse than the others worth as much as they are.
    own = (rest.abs().square() / variance).mean(1, keepdim=True)
    weight = weight / (varies / expected).clamp(min=1) / own.clamp(min=1)
    sums, harmonic = sum_by_harmonic(weight * mean.conj() * codes.p, codes.harmonic)
    masses = likelihood_curve(sums, harmonic, codes.elements).softmax(1)
    away = half_open(turn_grid(sums, codes.elements) - by.unsqueeze(1)).abs()
    return (masses * (away <= (0.5 / codes.elements if codes.elements else NEAR))).sum(1)


def _phase(by: Tensor, harmonic: Tensor) -> Tensor:
    """exp(2 pi i k by) of one turn (): (M,)."""
    return phases(by[None], harmonic)[0]


def _spread_out(n: int, count: int) -> Tensor:
    """At most `count` of n places, evenly apart."""
    return torch.linspace(0, n - 1, min(n, count), dtype=torch.float64).round().long()
