"""The paper's action T_g on features (section 4.6): it swaps the column means for those of the target at g."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from .action import Action, per_sample
from .layout import Axis, Layout
from .target import Estimate

Reference = Literal["absolute", "relative"]
"""Whether a model has an origin, or knows differences only."""


def recover(z: Tensor, layout: Layout, axis: str | Axis, among: Tensor | None = None) -> Estimate:
    """g of the image, read off softmax(group_logits(z)): (B, dim) -> Estimate of (B,), (B,).

    With `among` (K,) the best of these elements.
    """
    return layout.find(axis).target.read(layout.group_logits(z, axis), among)


def act(z: Tensor, layout: Layout, axis: str | Axis, g: float | Tensor, beta: float | Tensor | None = None) -> Tensor:
    """T_g(z)_ij = z_ij - mu_j + log Q_j(g) - mean_k log Q_k(g) + beta: to the absolute element g, (B, dim) -> (B, dim).

    `beta`, one number per sample, becomes the mean of the group logits; by default it stays what it is, and so does
    the content.
    """
    own = layout.find(axis)
    logits = layout.group_logits(z, own)  # eq. T_g holds for column means, not sums
    wanted = own.target.log_masses(per_sample(g, logits), own.bins)
    level = logits.mean(-1) if beta is None else per_sample(beta, logits)
    wanted = wanted - wanted.mean(-1, keepdim=True) + level.unsqueeze(-1)
    return layout.add(z, own, wanted - logits).to(z.dtype)


def shift(z: Tensor, layout: Layout, axis: str | Axis, by: float | Tensor) -> Tensor:
    """T of recover(z).g + by: (B, dim) -> (B, dim); wraps on the circle, clamps to [0, 1] on the interval."""
    own = layout.find(axis)
    g = recover(z, layout, own).g
    return act(z, layout, own, own.target.domain.wrap(g + per_sample(by, g)))


@dataclass(frozen=True)
class Prescribed(Action):
    """The paper's T of one axis: to an absolute element where the model has an origin, else by a difference."""

    layout: Layout
    axis: Axis
    relative: bool = False

    name: ClassVar[str] = "prescribed"
    title: ClassVar[str] = "the paper's T_g"
    meaning: ClassVar[str] = "changes the column means only"

    def act(self, z: Tensor, by: float | Tensor) -> Tensor:
        """T of what is recovered plus `by`."""
        return shift(z, self.layout, self.axis, by)

    def carry(self, z: Tensor, start: float | Tensor, goal: float | Tensor) -> Tensor:
        """T of the goal itself; with a relative reference T by goal - start."""
        return self.act(z, goal - start) if self.relative else act(z, self.layout, self.axis, goal)

    def orbit(self, z: Tensor, start: float, goals: Tensor) -> Tensor:
        """The same for every goal; the masses of a goal are computed once for all samples."""
        if self.relative:
            return super().orbit(z, start, goals)
        wanted = self.axis.target.log_masses(goals.to(z.device), self.axis.bins)
        wanted = wanted - wanted.mean(1, keepdim=True)
        logits = self.layout.group_logits(z, self.axis)
        level = self.layout.add(z, self.axis, logits.mean(1, keepdim=True) - logits)
        moved = [self.layout.add(level, self.axis, offset.expand_as(logits)) for offset in wanted]
        return torch.stack(moved).to(z.dtype)
