"""DUET: the content of two views is contrasted, and the marginal over g is matched to what was done to the image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..error import DuetError
from ..networks import Backbone, Projector
from ..objectives import Contrast, Gather, jensen_shannon, nt_xent
from ..representation import Axis, Layout, difference
from ..representation.prescribed import Reference
from .method import Method, Parts, Represented, Views, check_weight, register_method


@register_method
class Duet(Method):
    """L = NT-Xent(h(c_1), h(c_2)) + lambda * mean over axes of the group loss (eq. 3).

    reference="absolute" matches P(g|x) of each view to the target at its own g (eq. 2). "relative" matches the
    distribution of g_2 - g_1 to the target at the drawn difference: for images that have no upright of their own.
    With weight 0 the table is still there and its content is contrasted: the paper's lambda = 0.
    """

    name = "duet"
    title = "DUET"
    words = {"content": "content loss", "group": "group loss, weighted"}
    structured = True

    @dataclass(frozen=True)
    class Options:
        """lambda, and what the marginal is matched to."""

        weight: float = 10.0
        reference: Reference = "absolute"

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        weight: float = 10.0,
        reference: Reference = "absolute",
        contrast: Contrast = nt_xent,
    ) -> None:
        super().__init__(backbone, layout)
        if not layout.axes:
            raise DuetError("DUET needs a layout with at least one axis: Table, Joint or Concatenated")
        if reference not in ("absolute", "relative"):
            raise DuetError(f"reference must be 'absolute' or 'relative', not {reference!r}")
        self.projector = projector
        self.weight = check_weight(weight)
        self.reference = reference
        self.contrast = contrast

    @classmethod
    def build(cls, parts: Parts, options: Options) -> Duet:
        """DUET with a projector of the content."""
        projector = parts.projector(parts.layout.content_width)
        return cls(parts.backbone, parts.layout, projector, options.weight, options.reference, parts.contrast)

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast of the content and, unless its weight is zero, the weighted group loss."""
        # Twice the mean over anchors, as the authors count: lambda then means what it means in the paper (decision 10).
        first, second = views.split(self.projector(self.layout.content(represented.z)))
        terms = {"content": 2 * self.contrast(first, second, gather=gather)}
        if self.weight > 0:
            losses = [self._group_loss(represented.z, axis, views) for axis in self.layout.axes]
            terms["group"] = self.weight * torch.stack(losses).mean()
        return terms

    def _group_loss(self, z: Tensor, axis: Axis, views: Views) -> Tensor:
        if axis.name not in views.g:
            raise DuetError(f"the views carry no g of {axis.name!r}; track it in the stack")
        marginal = self.layout.group_logits(z, axis).softmax(dim=1)
        g = views.g[axis.name].to(marginal.dtype)
        if self.reference == "absolute":
            return jensen_shannon(marginal, axis.target.masses(g, axis.bins)).mean()
        (first, second), (g_first, g_second) = views.split(marginal), views.split(g)
        moved = difference(first, second, axis.target.domain)
        return jensen_shannon(moved, axis.target.difference_masses(g_second - g_first, axis.bins)).mean()
