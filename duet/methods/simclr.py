"""SimCLR: the two views' features are contrasted, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..error import DuetError
from ..groups import Group, Stack
from ..networks import Backbone, Projector
from ..objectives import Contrast, Gather, nt_xent
from ..representation import Layout
from .method import Method, Parts, Represented, Views, content_loss, register_method


@register_method
class SimCLR(Method):
    """L = NT-Xent(h(z_1), h(z_2)) on unstructured features."""

    name = "simclr"
    title = "SimCLR"
    words = {"content": "content loss"}

    @dataclass(frozen=True)
    class Options:
        """Whether its views are drawn without the group."""

        leave_out: bool = False

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        projector: Projector,
        contrast: Contrast = nt_xent,
        left_out: tuple[Group, ...] = (),
    ) -> None:
        super().__init__(backbone, layout)
        self.projector = projector
        self.contrast = contrast
        self.left_out = left_out
        if any(group.crops for group in left_out):
            raise DuetError("leave_out has no meaning for scale: its views would be left without a crop")

    @classmethod
    def build(cls, parts: Parts, options: Options) -> SimCLR:
        """SimCLR with a projector of all features."""
        projector = parts.projector(parts.layout.content_width)
        left_out = parts.groups if options.leave_out else ()
        return cls(parts.backbone, parts.layout, projector, parts.contrast, left_out)

    @property
    def draws_own_views(self) -> bool:
        """Only where the group is left out."""
        return bool(self.left_out)

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """The views, without the group if that is asked for: (B,C,H,W) -> Views."""
        return super().draw_views(images, stack.without(*(group.name for group in self.left_out)), generator)

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast alone."""
        return {"content": content_loss(views.split(self.projector(represented.z)), self.contrast, gather)}
