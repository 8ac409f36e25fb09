"""Extra views that a group alone distinguishes: of a stack without it, small, so that they cost little."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..error import DuetError
from ..groups import Group, Stack, View

Draw = Callable[[Group, int, torch.Generator], Tensor]
"""How the elements of a continuous group are drawn: n of them, (n,)."""


def stack_without(stack: Stack, groups: Sequence[Group]) -> Stack:
    """The same augmentations but for these groups."""
    return stack.without(*(group.name for group in groups))


def draw_extra(
    images: Tensor,
    base: Stack,
    groups: Sequence[Group],
    generator: torch.Generator,
    full: float = 0.0,
    draw: Draw = Group.sample,
) -> dict[str, View]:
    """For every group views of `base`, transformed by it alone: all elements of a finite group, else one an image.

    They have half the size and a quarter of the cost of a view. `full` is the share of that cost which is spent on
    views of full size instead, of a quarter as many images: these have names of their own.
    """
    height, width = base.size or (images.shape[2], images.shape[3])
    small = base.without(size=(max(1, height // 2), max(1, width // 2)))
    large = round(full * len(images) / 4)
    count = round((1 - full) * len(images))
    extra = {}
    for group in groups:
        if count:
            view = small(images[:count], generator)
            extra[group.name] = transform_views(view.images, group, generator, draw)
        if large:
            view = base(images[-large:], generator)
            extra[f"{group.name} at full size"] = transform_views(view.images, group, generator, draw)
    return extra


def transform_views(images: Tensor, group: Group, generator: torch.Generator, draw: Draw = Group.sample) -> View:
    """These images at every element of a finite group, one element after another, else each at one that is drawn."""
    if group.elements is None:
        g = draw(group, len(images), generator).to(images.device)
        return View(group.apply(images, g, generator), {group.name: g})
    g = torch.tensor(group.elements, device=images.device).repeat_interleave(len(images))
    return View(group.apply(images.repeat(len(group.elements), 1, 1, 1), g, generator), {group.name: g})


def check_left_out(title: str, groups: Sequence[Group]) -> None:
    """Refuse a group that cannot be left out of a stack."""
    crop = next((group for group in groups if group.crops), None)
    if crop is not None:
        raise DuetError(
            f"{title} has no meaning for {crop.name}: its views would be left without a crop; take another group"
        )
