"""Test-time turns: a model looks at turned copies of an image, turns their features back, and takes the mean.

z(x) = 1/K sum_k T_(-k/K) f(tau_(k/K) x), T the roll of the rotation's columns. So z is a table as f(x) is, and
z(tau_(j/K) x) = T_(j/K) z(x) exactly, however far f is from equivariant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ..error import DuetError
from ..groups import Group, Rotation
from ..representation import Axis, Layout

QUARTERS = 4
"""Turns of square images that need no resampling."""


def turning_axis(
    turns: int, axes: Sequence[Axis], groups: Mapping[str, Group], image_size: tuple[int, int] | None = None
) -> Axis | None:
    """The axis that is turned back, None with one turn; one line says why a model cannot look at so many."""
    if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1:
        raise DuetError(f"turns are a whole number, 1 or more, not {turns!r}")
    if turns == 1:
        return None
    named = [(axis, groups[axis.name]) for axis in axes]
    found = [(axis, group) for axis, group in named if isinstance(group, Rotation)]
    if len(found) != 1:
        names = ", ".join(axis.name for axis in axes) or "none"
        raise DuetError(f"{turns} turns need a table with one rotation; the groups with columns: {names}; give turns 1")
    ((axis, group),) = found
    if abs(group.span[1] - group.span[0]) != 360:
        raise DuetError(f"{turns} turns go all around, and {group.name} does not; give turns 1")
    if group.elements is not None and len(group.elements) % turns:
        raise DuetError(
            f"{turns} turns do not divide the {len(group.elements)} elements of {group.name}; give turns that do"
        )
    if axis.bins % turns:
        raise DuetError(f"{turns} turns do not divide the {axis.bins} columns of {group.name}; give turns that do")
    if QUARTERS % turns and group.corners != "circle":
        raise DuetError(f"{turns} turns need images that are seen through a disc (corners circle); 2 and 4 do not")
    if image_size is not None:
        check_square(turns, image_size)
    return axis


def check_square(turns: int, size: tuple[int, int]) -> None:
    """Refuse images that a turn would not fit into."""
    if size[0] != size[1]:
        raise DuetError(f"{turns} turns need square images, and these are {size[1]} x {size[0]}; give turns 1")


def look_around(
    features: Callable[[Tensor], Tensor], images: Tensor, turns: int, layout: Layout, axis: Axis, group: Group
) -> Tensor:
    """The mean of the features of `turns` turned copies, each turned back: (B,C,H,W) -> (B,D).

    All copies go through the network at once, the untouched ones first.
    """
    check_square(turns, (images.shape[-2], images.shape[-1]))
    copies = torch.cat([turned(images, k / turns, group) for k in range(turns)])
    z = features(copies).reshape(turns, -1, layout.dim)
    back = [layout.roll(z[k], axis, -k * (axis.bins // turns)) for k in range(turns)]
    return torch.stack(back).mean(0)


def turned(images: Tensor, by: float, group: Group) -> Tensor:
    """Images as they are after a turn of `by` of the circle; quarters move pixels: (B,C,H,W) -> (B,C,H,W)."""
    degrees = by * (group.span[1] - group.span[0])
    if degrees % 90 == 0:
        return torch.rot90(images, int(degrees // 90), (2, 3))
    g = torch.full_like(images[:, 0, 0, 0], (group.identity + by) % 1)
    return group.transform(images, g)
