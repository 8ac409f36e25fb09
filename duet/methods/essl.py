"""ESSL: SimCLR without the group among its augmentations, and a predictor of the group's element on extra views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..error import DuetError
from ..groups import Group, Stack, View
from ..networks import Backbone, Predictor, Projector
from ..objectives import Contrast, Gather, nt_xent
from ..representation import Layout
from .method import Method, Parts, Represented, Views, check_weight, register_method


@register_method
class ESSL(Method):
    """L = NT-Xent(h(z_1), h(z_2)) + weight * mean over groups of the prediction loss on extra views (decision 13).

    The extra views have half the size. A finite group's elements are all applied and classified; of a continuous group
    one element is drawn and regressed, on the circle as its cosine and sine.
    """

    name = "essl"
    title = "ESSL"
    words = {"content": "content loss", "prediction": "prediction loss, weighted"}

    @dataclass(frozen=True)
    class Options:
        """The weight of the prediction."""

        weight: float = 0.4

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        groups: Sequence[Group],
        weight: float = 0.4,
        contrast: Contrast = nt_xent,
        hidden: int = 2048,
    ) -> None:
        super().__init__(backbone, layout)
        self.check(groups)
        self.projector = projector
        self.contrast = contrast
        self.groups = tuple(groups)
        self.weight = check_weight(weight)
        self.predictors = nn.ModuleDict({g.name: Predictor(backbone.dim, _outputs(g), hidden) for g in groups})

    @classmethod
    def build(cls, parts: Parts, options: Options) -> ESSL:
        """ESSL with a projector of all features and a predictor for every group."""
        projector = parts.projector(parts.layout.content_width)
        return cls(parts.backbone, parts.layout, projector, parts.groups, options.weight, parts.contrast, parts.hidden)

    @classmethod
    def check(cls, groups: Sequence[Group]) -> None:
        """It needs a group, and one that can be left out of the stack."""
        crop = next((group for group in groups if group.crops), None)
        if crop is not None:
            raise DuetError(
                f"ESSL has no meaning for {crop.name}: its views would be left without a crop; take another group"
            )
        if not groups:
            raise DuetError("ESSL needs at least one group to predict")

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """Two views without the groups, and for every group small views that it alone distinguishes."""
        base = stack.without(*(group.name for group in self.groups))
        height, width = base.size or (images.shape[2], images.shape[3])
        views = super().draw_views(images, base, generator)
        small = base.without(size=(max(1, height // 2), max(1, width // 2)))
        extra = {group.name: self._turn(small(images, generator).images, group, generator) for group in self.groups}
        return Views(views.images, views.g, views.count, extra)

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
        first, second = views.split(self.projector(represented.z))
        return {
            "content": 2 * self.contrast(first, second, gather=gather),  # decision 10
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
        return F.cross_entropy(predicted, group.domain.nearest(g, elements))
    return F.mse_loss(predicted, group.domain.coordinates(g))


def _outputs(group: Group) -> int:
    if group.elements is not None:
        return len(group.elements)
    return group.domain.coordinates(torch.zeros(1)).shape[1]
