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
from .turn import best_turn, half_open, likelihood_curve, phases, sum_by_harmonic, turn_grid

NEAR = 1 / 8
"""A turn is right if it is not further away than this share of the circle: 45 degrees."""
FEW = 1024  # images on which the search for a start is made
CANDIDATES = 48  # images that are tried as the mean
STARTS = 8  # of them, the best, are followed to their end
ROUNDS = 100
TINY = 1e-300  # no division by 0
SETTLED = 1e-12  # a round that gains less than this share is the last


class Codes(NamedTuple):
    """Complex p (N, M) of N images, and of each component its harmonic, its weight and whether it is real: (M,).

    `elements` of a finite group; 0 for the circle.
    """

    p: Tensor
    harmonic: Tensor
    weight: Tensor
    real: Tensor
    elements: int = 0

    def rows(self, which: Tensor) -> Codes:
        """Some of the images."""
        return self._replace(p=self.p[which])

    def read(self, mean: Tensor) -> Tensor:
        """By how much each image is turned against a mean (M,): the by of largest likelihood, (N,)."""
        sums, harmonic = sum_by_harmonic(self.weight * mean.conj() * self.p, self.harmonic)
        return best_turn(sums, harmonic, self.elements)[0]

    def turned_back(self, by: Tensor) -> Tensor:
        """exp(-2 pi i k by) p: (N,) -> (N, M)."""
        return phases(by, -self.harmonic) * self.p

    def score(self, mean: Tensor) -> float:
        """sum_m w_m |mean_m|^2, which is to be large."""
        return float((self.weight * mean.abs().square()).sum())


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
    is 0; in a finite group most images stay as they are. The order of the images changes nothing, and a turn of all of
    them neither.
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
    by, mean = _settle(codes, _search(codes.rows(order)))
    common = _common_turn(by, codes.elements)
    by, mean = half_open(by - common), mean * _phase(common, codes.harmonic)
    if codes.elements:
        by = (by * codes.elements).round() / codes.elements
    return Aligned(by, _probability(codes, order, by, mean), mean, codes.score(mean) / float(power.mean()))


def _search(codes: Codes) -> Tensor:
    """A mean (M,) to begin with: the best of those that some of the images lead to."""
    few = codes.rows(_spread_out(len(codes.p), FEW))
    means = [few.turned_back(few.read(p)).mean(0) for p in codes.p[_spread_out(len(codes.p), CANDIDATES)]]
    means.sort(key=codes.score, reverse=True)
    return max((_settle(few, mean)[1] for mean in means[:STARTS]), key=codes.score)


def _settle(codes: Codes, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Turns (N,) and mean (M,) in alternation until nothing is gained."""
    score = -1.0
    for _ in range(ROUNDS):
        by = codes.read(mean)
        mean = codes.turned_back(by).mean(0)
        before, score = score, codes.score(mean)
        if score <= before * (1 + SETTLED):
            break
    return by, mean


def _common_turn(by: Tensor, elements: int) -> Tensor:
    """The turn () that most images have, or on the circle their mean direction."""
    if elements:
        steps = (by * elements).round().long().remainder(elements)
        return torch.bincount(steps, minlength=elements).argmax().to(by) / elements
    direction = phases(by, by.new_ones(1)).sum()
    return torch.atan2(direction.imag, direction.real) / (2 * torch.pi)


def _probability(codes: Codes, order: Tensor, by: Tensor, mean: Tensor) -> Tensor:
    """How much of each image's likelihood lies near its turn, (N,), read against the mean of the other half of them.

    The halves are aligned apart, so that no image has drawn the mean that it is read against towards itself.
    """
    halves = [order[0::2], order[1::2]]
    means = []
    for half in halves:
        part = codes.rows(half)
        found = _settle(part, _search(part))[1]
        # Each half has found a common turn of its own: this is by how much it differs from that of all.
        apart = codes._replace(p=found[None]).read(mean)[0]
        means.append(found * _phase(-apart, codes.harmonic))
    probability = torch.zeros_like(by)
    for half, own, other in zip(halves, means, reversed(means), strict=True):
        shared = float((codes.weight * other.conj() * own).real.sum()) / max(codes.score(other), TINY)
        # What the halves do not share of their means is chance.
        probability[half] = _mass_near(codes.rows(half), by[half], other * min(max(shared, 0.0), 1.0))
    return probability


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
