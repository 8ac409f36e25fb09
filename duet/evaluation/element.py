"""Arithmetic of elements g: differences, errors and agreement, on the circle and on the interval."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor

from ..groups import Group


def separation(a: Tensor, b: Tensor, cyclic: bool) -> Tensor:
    """a - b, on the circle the short way round, in [-1/2, 1/2]."""
    gap = a - b
    return gap - gap.round() if cyclic else gap


def raw_error(true: Tensor, found: Tensor, group: Group) -> Tensor:
    """|found - true| in the group's own unit: (n,), (n,) -> (n,)."""
    if group.cyclic:
        low, high = group.span
        return separation(found, true, True).abs() * abs(high - low)
    return (group.parameter(found) - group.parameter(true)).abs()


def r_squared(true: Tensor, found: Tensor, cyclic: bool) -> float:
    """1 - sum |u - v|^2 / sum |u - mean u|^2, with u, v = (cos, sin) of 2 pi g on the circle: (n,), (n,) -> number."""
    u, v = (coordinates(g.double(), cyclic) for g in (true, found))
    spread = (u - u.mean(0)).square().sum()
    return float(1 - (u - v).square().sum() / spread) if spread > 0 else math.nan


def coordinates(g: Tensor, cyclic: bool) -> Tensor:
    """What a linear map can predict: the point on the unit circle, or g itself: (n,) -> (n, 2) or (n, 1)."""
    angle = 2 * math.pi * g
    return torch.stack([angle.cos(), angle.sin()], 1) if cyclic else g.unsqueeze(1)


def from_coordinates(point: Tensor, cyclic: bool) -> Tensor:
    """The g in [0, 1] nearest to predicted coordinates: (n, 2) or (n, 1) -> (n,)."""
    if cyclic:
        return (torch.atan2(point[:, 1], point[:, 0]) / (2 * math.pi)).remainder(1)
    return point[:, 0].clamp(0, 1)


def nearest_element(g: Tensor, elements: Tensor, cyclic: bool) -> Tensor:
    """Index of the element that lies nearest: (n,), (k,) -> (n,)."""
    return separation(g.unsqueeze(1), elements.unsqueeze(0), cyclic).abs().argmin(1)


def unit_name(unit: str) -> str:
    """A group's unit as part of a scalar's name: "degrees", "relative_width"; "g" when it has none."""
    return re.sub(r"[^a-z0-9]+", "_", unit.lower()).strip("_") or "g"
