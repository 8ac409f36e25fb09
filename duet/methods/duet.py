"""DUET: the content of two views is contrasted, and the marginal over g is matched to what was done to the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from ..error import DuetError
from ..groups import Group, Stack
from ..networks import Backbone, Projector
from ..networks.mode import statistics_kept
from ..objectives import Contrast, Gather, jensen_shannon, nt_xent
from ..representation import Axis, Layout, difference
from ..representation.prescribed import Reference
from .extra import check_left_out, draw_extra, stack_without
from .method import Method, Parts, Represented, Views, check_weight, content_loss, register_method

ViewsOf = Literal["shared", "separate"]


@register_method
class Duet(Method):
    """L = NT-Xent(h(c_1), h(c_2)) + lambda * mean over axes of the group loss (eq. 3).

    reference="absolute" matches P(g|x) of each view to the target at its own g (eq. 2). "relative" matches the
    distribution of g_2 - g_1 to the target at the drawn difference: for images that have no upright of their own.
    With weight 0 the table is still there and its content is contrasted: the paper's lambda = 0.

    views="shared" is the paper's: one pair of views for both losses. "separate" contrasts all features of views without
    the groups, and matches P(g|x) on extra views, drawn as ESSL's are: nothing is asked to be the same across the turns
    that the table should keep. `full` is the share of the extra views' cost that goes to views of full size, from the
    part `full_from` of the training on: what is learned last is what full images are read by.
    """

    name = "duet"
    title = "DUET"
    words = {"content": "content loss", "group": "group loss, weighted"}
    structured = True

    @dataclass(frozen=True)
    class Options:
        """lambda, what the marginal is matched to, and on which views."""

        weight: float = 10.0
        reference: Reference = "absolute"
        views: ViewsOf = "shared"
        full: float = 0.0
        full_from: float = 0.0

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        weight: float = 10.0,
        reference: Reference = "absolute",
        contrast: Contrast = nt_xent,
        views: ViewsOf = "shared",
        full: float = 0.0,
        full_from: float = 0.0,
    ) -> None:
        super().__init__(backbone, layout)
        if not layout.axes:
            raise DuetError("DUET needs a layout with at least one axis: Table, Joint or Concatenated")
        if reference not in ("absolute", "relative"):
            raise DuetError(f"reference must be 'absolute' or 'relative', not {reference!r}")
        if views not in get_args(ViewsOf):
            raise DuetError(f"views must be 'shared' or 'separate', not {views!r}")
        if not 0 <= full <= 1:
            raise DuetError(f"full is a share of the extra views' cost, from 0 to 1; it is {full}")
        if not 0 <= full_from <= 1:
            raise DuetError(f"full_from is a part of the training, from 0 to 1; it is {full_from}")
        if views == "separate" and reference == "relative":
            raise DuetError("views=separate draws one element an image, and a relative reference needs two; choose one")
        if views == "shared" and full > 0:
            raise DuetError("full is a share of extra views, and there are none; give views=separate too")
        self.views: ViewsOf = views
        self.full = full
        self.full_from = full_from
        self.projector = projector
        self.weight = check_weight(weight)
        self.reference = reference
        self.contrast = contrast

    @classmethod
    def build(cls, parts: Parts, options: Options) -> Duet:
        """DUET with a projector of the content, or of all features."""
        separate = options.views == "separate"
        if separate:
            check_left_out("DUET with views=separate", parts.groups)
        projector = parts.projector(parts.layout.dim if separate else parts.layout.content_width)
        settings = (options.weight, options.reference, parts.contrast, options.views, options.full, options.full_from)
        return cls(parts.backbone, parts.layout, projector, *settings)

    @property
    def draws_own_views(self) -> bool:
        """Only where the two losses have views apart."""
        return self.views == "separate"

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """Views of the stack; or views without the groups, and extra ones that only a group distinguishes."""
        if self.views == "shared":
            return super().draw_views(images, stack, generator)
        groups = self._tracked(stack)
        base = stack_without(stack, groups)
        views = super().draw_views(images, base, generator)
        full = self.full if self.progress >= self.full_from else 0.0
        extra = draw_extra(images, base, groups, generator, full) if self.weight > 0 else {}
        return Views(views.images, views.g, views.count, extra)

    def represent(self, views: Views) -> Represented:
        """The features of all views: those of one size go through the backbone together, small ones apart from them."""
        large = {name: v.images for name, v in views.extra.items() if v.images.shape[1:] == views.images.shape[1:]}
        rows = [len(views.images), *map(len, large.values())]
        z, *found = self.backbone(torch.cat([views.images, *large.values()])).split(rows)
        with statistics_kept(self.backbone):  # of small images they would be those of no image that is tested
            small = {name: self.backbone(v.images) for name, v in views.extra.items() if name not in large}
        return Represented(z, small | dict(zip(large, found, strict=True)))

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast of the content and, unless its weight is zero, the weighted group loss."""
        z, layout = represented.z, self.layout
        contrasted = self.projector(layout.content(z) if self.views == "shared" else z)
        terms = {"content": content_loss(views.split(contrasted), self.contrast, gather)}
        if self.weight > 0:
            losses = [self._group_loss(axis, represented, views) for axis in layout.axes]
            terms["group"] = self.weight * torch.stack(losses).mean()
        return terms

    def _group_loss(self, axis: Axis, represented: Represented, views: Views) -> Tensor:
        """The mean over sizes of extra views, each counting the same; or that of the shared views."""
        if self.views == "separate":
            named = [name for name, view in views.extra.items() if axis.name in view.g]
            losses = [self._absolute(axis, represented.extra[name], views.extra[name].g[axis.name]) for name in named]
            return torch.stack(losses).mean()
        if axis.name not in views.g:
            raise DuetError(f"the views carry no g of {axis.name!r}; track it in the stack")
        if self.reference == "absolute":
            return self._absolute(axis, represented.z, views.g[axis.name])
        return self._relative(axis, represented.z, views)

    def _absolute(self, axis: Axis, z: Tensor, g: Tensor) -> Tensor:
        marginal = self.layout.group_logits(z, axis).softmax(dim=1)
        return jensen_shannon(marginal, axis.target.masses(g.to(marginal.dtype), axis.bins)).mean()

    def _relative(self, axis: Axis, z: Tensor, views: Views) -> Tensor:
        """The mean over pairs of views."""
        first, second = views.pairs(self.layout.group_logits(z, axis).softmax(dim=1))
        g_first, g_second = views.pairs(views.g[axis.name].to(first.dtype))
        moved = difference(first, second, axis.target.domain)
        return jensen_shannon(moved, axis.target.difference_masses(g_second - g_first, axis.bins)).mean()

    def _tracked(self, stack: Stack) -> Sequence[Group]:
        """The groups of the axes, as the stack has them."""
        tracked = {group.name: group for group in stack.tracked}
        for axis in self.layout.axes:
            if axis.name not in tracked:
                raise DuetError(f"the stack has no g of {axis.name!r}; track it in the stack")
        groups = [tracked[axis.name] for axis in self.layout.axes]
        check_left_out("DUET with views=separate", groups)
        return groups
