"""ESSL: SimCLR without the group among its augmentations, and a predictor of the group's element on extra views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..domain import Circle
from ..error import DuetError
from ..groups import Group, Stack
from ..networks import Backbone, Predictor, Projector
from ..networks.mode import statistics_kept
from ..objectives import Contrast, Gather, nt_xent
from ..representation import Layout
from .extra import Draw, check_left_out, draw_extra, stack_without
from .method import Method, Parts, Represented, Views, check_weight, content_loss, register_method

Targets = Literal["own", "authors"]


@register_method
class ESSL(Method):
    """L = NT-Xent(h(z_1), h(z_2)) + weight * mean over groups of the prediction loss on extra views (decision 13).

    The extra views have half the size. A finite group's elements are all applied and classified; of a continuous group
    one element is drawn and regressed: g, on the circle its cosine and sine. targets="authors" regresses what the
    released code does, with less variance: the raw factor, and on the circle the turn in half-turns, drawn from half of
    the circle about the identity, since a number would jump on the other side.
    """

    name = "essl"
    title = "ESSL"
    words = {"content": "content loss", "prediction": "prediction loss, weighted"}

    @dataclass(frozen=True)
    class Options:
        """The weight of the prediction, and what is predicted of a continuous group."""

        weight: float = 0.4
        targets: Targets = "own"

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        groups: Sequence[Group],
        weight: float = 0.4,
        contrast: Contrast = nt_xent,
        hidden: int = 2048,
        targets: Targets = "own",
    ) -> None:
        super().__init__(backbone, layout)
        self.check(groups)
        if targets not in get_args(Targets):
            raise DuetError(f"targets must be 'own' or 'authors', not {targets!r}")
        self.projector = projector
        self.contrast = contrast
        self.groups = tuple(groups)
        self.weight = check_weight(weight)
        self.targets: Targets = targets
        self.predictors = nn.ModuleDict({g.name: Predictor(backbone.dim, outputs(g, targets), hidden) for g in groups})

    @classmethod
    def build(cls, parts: Parts, options: Options) -> ESSL:
        """ESSL with a projector of all features and a predictor for every group."""
        projector = parts.projector(parts.layout.content_width)
        settings = (options.weight, parts.contrast, parts.hidden, options.targets)
        return cls(parts.backbone, parts.layout, projector, parts.groups, *settings)

    @classmethod
    def check(cls, groups: Sequence[Group]) -> None:
        """It needs a group, and one that can be left out of the stack."""
        check_left_out("ESSL", groups)
        if not groups:
            raise DuetError("ESSL needs at least one group to predict")

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """Views without the groups, and for every group small views that it alone distinguishes."""
        base = stack_without(stack, self.groups)
        views = super().draw_views(images, base, generator)
        extra = draw_extra(images, base, self.groups, generator, draw=DRAWS[self.targets])
        return Views(views.images, views.g, views.count, extra)

    def represent(self, views: Views) -> Represented:
        """The features of the views, and apart from them those of the extra ones."""
        with statistics_kept(self.backbone):  # of small images they would be those of no image that is tested
            extra = {name: self.backbone(view.images) for name, view in views.extra.items()}
        return Represented(self.backbone(views.images), extra)

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast, and the weighted prediction loss."""
        losses = [
            prediction_loss(self.predictors[g.name](represented.extra[g.name]), drawn, g, self.targets)
            for g, drawn in ((group, views.extra[group.name].g[group.name]) for group in self.groups)
        ]
        return {
            "content": content_loss(views.split(self.projector(represented.z)), self.contrast, gather),
            "prediction": self.weight * torch.stack(losses).mean(),
        }


def prediction_loss(predicted: Tensor, g: Tensor, group: Group, targets: Targets = "own") -> Tensor:
    """Cross-entropy over a finite group's elements; the squared error of a continuous one's targets."""
    predicted = predicted.float()
    if group.elements is not None:
        elements = torch.tensor(group.elements, device=g.device)
        return F.cross_entropy(predicted, group.domain.nearest(g, elements))
    return F.mse_loss(predicted, regressed(g, group, targets))


def regressed(g: Tensor, group: Group, targets: Targets = "own") -> Tensor:
    """What is predicted of a continuous group: g or its cosine and sine, or the authors' numbers: (n,) -> (n, 1 or 2).

    The authors' are raw factors; a circle's elements are counted in half-turns from the identity.
    """
    if targets == "own":
        return group.domain.coordinates(g)
    if isinstance(group.domain, Circle):
        return 2 * group.domain.difference(g, torch.as_tensor(group.identity).to(g)).unsqueeze(1)
    return group.parameter(g).unsqueeze(1)


def draw_half(group: Group, n: int, generator: torch.Generator) -> Tensor:
    """n elements as the authors draw them: those of a circle at most a quarter of it from the identity."""
    g = group.sample(n, generator)
    return group.domain.wrap(group.identity + (g - 0.5) / 2) if isinstance(group.domain, Circle) else g


DRAWS: dict[Targets, Draw] = {"own": Group.sample, "authors": draw_half}


def outputs(group: Group, targets: Targets = "own") -> int:
    """The width of what is predicted of a group."""
    if group.elements is not None:
        return len(group.elements)
    return regressed(torch.zeros(1), group, targets).shape[1]
