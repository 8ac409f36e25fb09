"""ESSL: SimCLR without the group among its augmentations, and a predictor of the group's element on extra views."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..groups import Group, Stack, View
from ..networks import Backbone, Predictor, Projector
from ..representation import Layout
from .method import Gather, Method, Represented, Views


class ESSL(Method):
    """L = NT-Xent(h(z_1), h(z_2)) + weight * mean over groups of the prediction loss on extra views (decision 13).

    The extra views have half the size. A finite group's elements are all applied and classified; of a continuous group
    one element is drawn and regressed, on the circle as its cosine and sine.
    """

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        groups: Sequence[Group],
        weight: float = 0.4,
        temperature: float = 0.1,
        hidden: int = 2048,
    ) -> None:
        super().__init__(backbone, layout, projector, temperature)
        if any(group.name == "scale" for group in groups):
            raise ValueError(
                "ESSL has no meaning for scale: its views would be left without a crop; take another group"
            )
        if not groups:
            raise ValueError("ESSL needs at least one group to predict")
        self.groups = tuple(groups)
        self.weight = weight
        self.predictors = nn.ModuleDict({g.name: Predictor(backbone.dim, _outputs(g), hidden) for g in groups})

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """Two views without the groups, and for every group small views that it alone distinguishes."""
        base = stack.without(*(group.name for group in self.groups))
        height, width = base.size or (images.shape[2], images.shape[3])
        views = super().draw_views(images, base, generator)
        small = base.without(size=(max(1, height // 2), max(1, width // 2)))
        extra = {group.name: self._turn(small(images, generator).images, group, generator) for group in self.groups}
        return Views(views.images, views.g, extra)

    def represent(self, views: Views) -> Represented:
        """The features of the two views, and apart from them those of the extra ones."""
        extra = {name: self.backbone(view.images) for name, view in views.extra.items()}
        return Represented(self.backbone(views.images), extra)

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast, and the weighted prediction loss."""
        losses = [
            prediction_loss(self.predictors[g.name](represented.extra[g.name]), views.extra[g.name].g[g.name], g)
            for g in self.groups
        ]
        return {
            "content": self.contrast(represented.z, gather),
            "prediction": self.weight * torch.stack(losses).mean(),
        }

    @staticmethod
    def _turn(images: Tensor, group: Group, generator: torch.Generator) -> View:
        if group.elements is None:
            g = group.sample(len(images), generator).to(images.device)
            return View(group.apply(images, g, generator), {group.name: g})
        g = torch.tensor(group.elements, device=images.device).repeat_interleave(len(images))
        return View(group.apply(images.repeat(len(group.elements), 1, 1, 1), g, generator), {group.name: g})


def prediction_loss(predicted: Tensor, g: Tensor, group: Group) -> Tensor:
    """Cross-entropy over a finite group's elements; squared error of g, or of its cosine and sine on the circle."""
    predicted = predicted.float()
    if group.elements is not None:
        elements = torch.tensor(group.elements, device=g.device)
        return F.cross_entropy(predicted, (g[:, None] - elements).abs().argmin(dim=1))
    if group.cyclic:
        angle = 2 * math.pi * g
        return F.mse_loss(predicted, torch.stack([angle.cos(), angle.sin()], dim=1))
    return F.mse_loss(predicted.squeeze(1), g)


def _outputs(group: Group) -> int:
    if group.elements is not None:
        return len(group.elements)
    return 2 if group.cyclic else 1
