"""Errors of elements g: in the raw unit, as hits, and as a share of what there is to explain."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..device import widest
from ..domain import Topology, as_domain
from ..groups import Group
from ..unit import unit_name


def raw_error(true: Tensor, found: Tensor, group: Group) -> Tensor:
    """|found - true| in the group's own unit, on the circle the short way round: (n,), (n,) -> (n,)."""
    if group.cyclic:
        low, high = group.span
        return group.domain.distance(found, true) * abs(high - low)
    return (group.parameter(found) - group.parameter(true)).abs()


def r_squared(true: Tensor, found: Tensor, cyclic: Topology) -> float:
    """1 - sum |u - v|^2 / sum |u - mean u|^2, with u, v = (cos, sin) of 2 pi g on the circle: (n,), (n,) -> number."""
    u, v = (as_domain(cyclic).coordinates(g.to(widest(g))) for g in (true, found))
    spread = (u - u.mean(0)).square().sum()
    return float(1 - (u - v).square().sum() / spread) if spread > 0 else math.nan


def hits(true: Tensor, found: Tensor, group: Group) -> Tensor:
    """Whether the nearest element of a finite group is the true one, as 0 and 1: (...), (...) -> (...)."""
    elements = torch.tensor(group.elements, device=found.device)
    nearest = [group.domain.nearest(g.flatten(), elements).reshape(g.shape) for g in (found, true)]
    return (nearest[0] == nearest[1]).double()


def errors(true: Tensor, found: Tensor, group: Group, prefix: str = "") -> dict[str, float]:
    """R^2, median and mean error in the raw unit and, for a finite group, accuracy of the nearest element.

    true and found are elements g, (n,) each.
    """
    error = raw_error(true, found, group)
    unit = unit_name(group.unit)
    scalars = {
        f"{prefix}r2": r_squared(true, found, group.domain),
        f"{prefix}median_error_{unit}": float(np.median(error.cpu().numpy())),
        f"{prefix}mean_error_{unit}": float(error.mean()),
    }
    if group.elements is not None:
        scalars[f"{prefix}accuracy"] = float(hits(true, found, group).mean())
    return scalars
