"""What is read off the features of images: values, how widely P(g|x) lies about them, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..unit import in_unit

SHOWN = 4  # values that a Reading shows of itself


@dataclass(frozen=True)
class Reading:
    """What is read off the features of every image: g in [0, 1], the raw value and its spread in `unit`; (B,) each.

    A calibrated model also tells the `probability` that the value is right: off by at most an eighth of the range, or
    of a finite group the right element; whether the image is of the kind that it knows (`known`), without which that
    probability means nothing; and whether it is `sure`: known, and probable enough. Other models have None there.
    `unknown` says where no value should be told: not sure or, without calibration, a flat marginal.
    """

    g: Tensor
    value: Tensor
    spread: Tensor
    unit: str
    unknown: Tensor
    probability: Tensor | None = None
    known: Tensor | None = None
    sure: Tensor | None = None

    def words(self, digits: int = 1) -> list[str]:
        """Every value as people would say it, with its unit, or "unknown"."""
        told = torch.where(self.unknown, torch.nan, self.value.double())
        return [in_unit(value, self.unit, digits) for value in told.tolist()]

    def __repr__(self) -> str:
        shown = replace(self, value=self.value[:SHOWN], unknown=self.unknown[:SHOWN]).words()
        more = f", ... {len(self.value)} values" if len(self.value) > SHOWN else ""
        sure = "not calibrated" if self.sure is None else f"sure of {int(self.sure.sum())}"
        return f"Reading({', '.join(shown)}{more}; {sure})"
