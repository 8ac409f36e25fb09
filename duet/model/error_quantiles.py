"""How far off readings are: quantiles of the error, given the doubt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..error import DuetError

BLOCKS, LEAST_BLOCK = 10, 20
"""Groups of readings of about one doubt, at most, and readings in each, at least."""
LEVELS = (*(k / 10 for k in range(9)), *(0.8 + k / 50 for k in range(1, 10)), 0.99)
"""Probabilities at which the errors of a group are kept: densest where one is nearly sure."""


class Errors(nn.Module):
    """How far off readings are, given their doubt: the error below which so many of them lie, at LEVELS."""

    doubts: Tensor  # (K,), rising
    quantiles: Tensor  # (K, len(LEVELS)) in units of g, never falling along either side
    levels: Tensor  # (len(LEVELS),)

    def __init__(self, doubts: Tensor, quantiles: Tensor, within: float) -> None:
        super().__init__()
        if doubts.ndim != 1 or not len(doubts) or quantiles.shape != (len(doubts), len(LEVELS)) or not within > 0:
            raise DuetError(f"the errors of a confidence are {len(LEVELS)} quantiles for each of one doubt or more")
        if not bool(torch.isfinite(doubts).all() and torch.isfinite(quantiles).all() and (doubts.diff() > 0).all()):
            raise DuetError("the errors of a confidence are finite numbers, and their doubts rise")
        if not bool((quantiles >= 0).all() and (quantiles.diff(dim=1) >= 0).all()):
            raise DuetError("the quantiles of an error are not negative and do not fall")
        self.register_buffer("doubts", doubts)
        self.register_buffer("quantiles", quantiles)
        self.register_buffer("levels", torch.tensor(LEVELS, dtype=quantiles.dtype), persistent=False)
        self.within = within

    @classmethod
    def fit(cls, doubt: Tensor, error: Tensor, image: Tensor, within: float) -> Errors:
        """From the doubt and the error of readings, and which image each is of: (n,) each.

        Quantiles over blocks of equal count, pooled so that more doubt never means a smaller error.

        The share of errors up to a value is lowered by a standard error that counts images, not views. A level that
        is not reached then has the error 1: all of g.
        """
        from sklearn.isotonic import isotonic_regression

        if not len(error):
            raise DuetError("errors are fitted to one reading or more")
        order = doubt.argsort(stable=True)
        parts = torch.tensor_split(order, max(1, min(BLOCKS, len(order) // LEAST_BLOCK)))
        rows = torch.stack([_cautious_quantiles(error[part], image[part]) for part in parts])
        weight = [len(part) for part in parts]
        pooled = [isotonic_regression(column.tolist(), sample_weight=weight) for column in rows.T]
        quantiles = torch.tensor([column.tolist() for column in pooled]).T
        middle = torch.stack([doubt[part].double().mean() for part in parts]).float()
        fresh = torch.cat([torch.tensor([True]), middle.diff() > 0])
        return cls(middle[fresh], quantiles[fresh].cummax(1).values.contiguous(), within)

    def below(self, doubt: Tensor, error: Tensor) -> Tensor:
        """The probability of an error below `error`, between two knots of doubt interpolated: (B,), (B,) -> (B,)."""
        shares = torch.stack([_interpolate(error, row, self.levels) for row in self.quantiles], 1)  # (B, K)
        place = doubt.to(self.doubts).clamp(self.doubts[0], self.doubts[-1])
        above = torch.searchsorted(self.doubts, place).clamp(1, max(1, len(self.doubts) - 1))
        if len(self.doubts) == 1:
            return shares[:, 0]
        low, high = self.doubts[above - 1], self.doubts[above]
        part = (place - low) / (high - low)
        rows = torch.arange(len(place), device=place.device)
        return shares[rows, above - 1] * (1 - part) + shares[rows, above] * part

    def to_dict(self) -> dict[str, Any]:
        """Its knots as plain numbers."""
        return {"within": self.within, "doubts": self.doubts.tolist(), "quantiles": self.quantiles.tolist()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Errors:
        """The errors that `to_dict` described."""
        quantiles = [[float(value) for value in row] for row in plain["quantiles"]]
        if any(len(row) != len(LEVELS) for row in quantiles):
            raise DuetError(f"the errors of a confidence are {len(LEVELS)} quantiles for each of one doubt or more")
        doubts = torch.tensor([float(value) for value in plain["doubts"]])
        return cls(doubts, torch.tensor(quantiles), float(plain["within"]))


def _cautious_quantiles(error: Tensor, image: Tensor) -> Tensor:
    """The errors at LEVELS of F - sqrt(F (1 - F) / images), F_j = j / (n + 1); 1 where that stays below a level."""
    count, images = len(error), len(torch.unique(image))
    share = torch.arange(1, count + 1, dtype=torch.float64) / (count + 1)
    lowered = (share - (share * (1 - share) / images).sqrt()).cummax(0).values
    place = torch.searchsorted(lowered, torch.tensor(LEVELS, dtype=torch.float64))
    sorted_error = torch.cat([error.double().sort().values, torch.ones(1, dtype=torch.float64)])
    found = sorted_error[place]
    found[0] = 0.0
    return found


def _interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Straight lines between knots that do not fall, flat beyond them; the largest value at equal knots."""
    after = torch.searchsorted(knots, x.to(knots), right=True)
    low, high = (after - 1).clamp(0, len(knots) - 1), after.clamp(0, len(knots) - 1)
    gap = knots[high] - knots[low]
    part = torch.where(gap > 0, (x.to(knots) - knots[low]) / gap.clamp(min=1e-12), 0).clamp(0, 1)
    return values[low] + part * (values[high] - values[low])
