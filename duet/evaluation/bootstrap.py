"""How sure a number is: the middle 95 % of what other draws of the same images would have given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..error import DuetError

DRAWS = 2000
LEVELS = 512  # thresholds at which shares are counted for medians
COVERED = 0.95
NORMAL = 1.959964  # standard deviations of a normal distribution on either side that cover as much
CHUNK = 8_000_000  # numbers of drawn weights held at a time


class Interval(NamedTuple):
    """Both ends of an interval."""

    low: float
    high: float


class Bootstrap:
    """Draws of N images with replacement; every statistic is computed for all draws at once.

    An image is drawn whole: all values that were measured on it come with it, since they are not independent.
    """

    def __init__(self, images: int, seed: int = 0, draws: int = DRAWS) -> None:
        if images < 1:
            raise DuetError("there are no images to draw from")
        self.images, self.seed, self.draws = images, seed, draws
        self._weights: list[Tensor] | None = None

    def mean(self, values: Tensor) -> Interval:
        """Of the mean over images and their values: (N,) or (N, m)."""
        return self.ratio(values, torch.ones_like(values))

    def share(self, hits: Tensor) -> Interval:
        """Of the share of hits, 0 and 1, over images and their values: (N,) or (N, m); of none or all Wilson's."""
        return self.share_of(hits, torch.ones_like(hits))

    def share_of(self, hits: Tensor, counted: Tensor) -> Interval:
        """Of sum(hits) / sum(counted), where hits are some of those counted: (N,) or (N, m) each."""
        above, below = _each(hits), _each(counted)
        if 0 < float(above.sum()) < float(below.sum()):
            return self.ratio(hits, counted)
        # Every draw would give the same. The values of one image are not independent, so each image counts once.
        return wilson(0 if float(above.sum()) == 0 else 1, int((below > 0).sum()))

    def ratio(self, above: Tensor, below: Tensor) -> Interval:
        """Of sum(above) / sum(below): (N,) or (N, m) each."""
        sums = torch.stack([_each(above), _each(below)], 1)  # (N, 2)
        found = self._of_sums(sums)
        return _middle(found[:, 0] / found[:, 1])

    def difference_of_shares(self, first: Tensor, second: Tensor) -> Interval:
        """Of mean(first) - mean(second) of hits, 0 and 1, measured on the same images: (N,) each.

        Where no image differs, as many as Wilson's interval allows may differ, in either direction.
        """
        if bool((first == second).all()):
            unseen = wilson(0, len(first)).high
            return Interval(-unseen, unseen)
        apart = first - second
        if bool((apart.abs() == 1).all()) and bool((apart == apart[0]).all()):
            ends = sorted(float(apart[0]) * end for end in wilson(1, len(first)))
            return Interval(ends[0], ends[1])
        return self.mean(_each(first) / _width(first) - _each(second) / _width(second))

    def median(self, values: Tensor) -> Interval:
        """Of the median over images and their values: (N,) or (N, m); exact to a step of LEVELS quantiles."""
        flat = values.detach().cpu().double().reshape(self.images, -1)
        levels = torch.quantile(_thinned(flat), torch.linspace(0, 1, LEVELS, dtype=torch.float64))
        below = torch.searchsorted(
            flat.sort(1).values.contiguous(), levels.expand(len(flat), -1).contiguous(), right=True
        )
        found = self._of_sums(torch.cat([below.double(), torch.full((self.images, 1), float(flat.shape[1]))], 1))
        share = found[:, :-1] / found[:, -1:]  # (draws, LEVELS), rising
        place = torch.searchsorted(share.contiguous(), torch.full((len(share), 1), 0.5, dtype=share.dtype)).squeeze(1)
        return _middle(levels[place.clamp(max=LEVELS - 1)])

    def _of_sums(self, sums: Tensor) -> Tensor:
        """Sums over the drawn images: (N, k) -> (draws, k)."""
        if len(sums) != self.images:
            raise DuetError(f"values of {len(sums)} images for draws of {self.images}")
        wanted = sums.detach().cpu().double()
        return torch.cat([weights @ wanted for weights in self._drawn()])

    def _drawn(self) -> Iterable[Tensor]:
        """How often every image is in every draw, a part of the draws at a time; few images' are remembered."""
        if self._weights is None and self.images * self.draws <= CHUNK:
            self._weights = list(self._draw())
        return self._draw() if self._weights is None else self._weights

    def _draw(self) -> Iterator[Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        for count in _pieces(self.draws, max(1, CHUNK // self.images)):
            drawn = torch.randint(self.images, (count, self.images), generator=generator)
            weights = torch.zeros(count, self.images, dtype=torch.float64)
            yield weights.scatter_add_(1, drawn, torch.ones_like(weights))


def wilson(share: float, n: int) -> Interval:
    """Wilson's 95 % interval of a share of n independent cases.

    (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), z = 1.96
    """
    if n < 1:
        return Interval(0.0, 1.0)
    square = NORMAL**2 / n
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return Interval(max(middle - half, 0.0), min(middle + half, 1.0))


def _each(values: Tensor) -> Tensor:
    """One sum an image: (N,) or (N, ...) -> (N,)."""
    return values.detach().cpu().double().reshape(len(values), -1).sum(1)


def _width(values: Tensor) -> float:
    return values[0].numel() if len(values) else 1


def _middle(found: Tensor) -> Interval:
    tail = (1 - COVERED) / 2
    low, high = torch.quantile(found[found.isfinite()], torch.tensor([tail, 1 - tail], dtype=found.dtype)).tolist()
    return Interval(low, high)


def _thinned(values: Tensor, most: int = 1_000_000) -> Tensor:
    """Values for quantiles, which torch takes of a bounded number only."""
    flat = values.flatten()
    return flat if len(flat) <= most else flat[:: -(-len(flat) // most)]


def _pieces(total: int, size: int) -> list[int]:
    return [min(size, total - done) for done in range(0, total, size)]
