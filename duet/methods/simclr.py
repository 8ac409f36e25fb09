"""SimCLR: the two views' features are contrasted, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..networks import Backbone, Projector
from ..objectives import Contrast, Gather, nt_xent
from ..representation import Layout
from .method import Method, Parts, Represented, Views, register_method


@register_method
class SimCLR(Method):
    """L = NT-Xent(h(z_1), h(z_2)) on unstructured features."""

    name = "simclr"
    title = "SimCLR"
    words = {"content": "content loss"}

    @dataclass(frozen=True)
    class Options:
        """None of its own."""

    def __init__(self, backbone: Backbone, layout: Layout, projector: Projector, contrast: Contrast = nt_xent) -> None:
        super().__init__(backbone, layout)
        self.projector = projector
        self.contrast = contrast

    @classmethod
    def build(cls, parts: Parts, options: Options) -> SimCLR:
        """SimCLR with a projector of all features."""
        return cls(parts.backbone, parts.layout, parts.projector(parts.layout.content_width), parts.contrast)

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast alone."""
        # Twice the mean over anchors: both directions, as the authors count (decision 10).
        first, second = views.split(self.projector(represented.z))
        return {"content": 2 * self.contrast(first, second, gather=gather)}
