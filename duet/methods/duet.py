"""DUET: the content of two views is contrasted, and the marginal over g is matched to what was done to the image."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..networks import Backbone, Projector
from ..objectives import jensen_shannon
from ..representation import Axis, Layout, difference
from .method import Gather, Method, Represented, Views

Reference = Literal["absolute", "relative"]


class Duet(Method):
    """L = NT-Xent(h(c_1), h(c_2)) + lambda * mean over axes of the group loss (eq. 3).

    reference="absolute" matches P(g|x) of each view to the target at its own g (eq. 2). "relative" matches the
    distribution of g_2 - g_1 to the target at the drawn difference: for images that have no upright of their own.
    With weight 0 the table is still there and its content is contrasted: the paper's lambda = 0.
    """

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        weight: float = 10.0,
        reference: Reference = "absolute",
        temperature: float = 0.1,
    ) -> None:
        super().__init__(backbone, layout, projector, temperature)
        if not layout.axes:
            raise ValueError("DUET needs a layout with at least one axis: Table, Joint or Concatenated")
        if weight < 0:
            raise ValueError(f"the weight of the group loss cannot be negative; it is {weight}")
        if reference not in ("absolute", "relative"):
            raise ValueError(f"reference must be 'absolute' or 'relative', not {reference!r}")
        self.weight = weight
        self.reference = reference

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast of the content and, unless its weight is zero, the weighted group loss."""
        terms = {"content": self.contrast(represented.z, gather)}
        if self.weight > 0:
            losses = [self._group_loss(represented.z, axis, views.g) for axis in self.layout.axes]
            terms["group"] = self.weight * torch.stack(losses).mean()
        return terms

    def _group_loss(self, z: Tensor, axis: Axis, drawn: dict[str, Tensor]) -> Tensor:
        if axis.name not in drawn:
            raise ValueError(f"the views carry no g of {axis.name!r}; track it in the stack")
        marginal = self.layout.group_logits(z, axis).softmax(dim=1)
        g = drawn[axis.name].to(marginal.dtype)
        if self.reference == "absolute":
            return jensen_shannon(marginal, axis.target.masses(g, axis.bins)).mean()
        (first, second), (g_first, g_second) = marginal.chunk(2), g.chunk(2)
        moved = difference(first, second, axis.target.cyclic)
        return jensen_shannon(moved, axis.target.difference_masses(g_second - g_first, axis.bins)).mean()
