"""Errors of elements g: in the raw unit, and as a share of what there is to explain."""

from __future__ import annotations

import math

from torch import Tensor

from ..device import widest
from ..domain import Topology, as_domain
from ..groups import Group


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
