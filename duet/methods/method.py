"""What a pre-training method is: it draws views of a batch, represents them, and names the terms of its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..groups import Stack, View
from ..networks import Backbone, Projector
from ..objectives import nt_xent
from ..representation import Layout

Gather = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Views:
    """Two views of a batch, the first B rows and the last B, with their g; and what else a method asked for."""

    images: Tensor  # (2B, C, H, W)
    g: dict[str, Tensor]  # (2B,) for every tracked group
    extra: dict[str, View] = field(default_factory=dict)


@dataclass(frozen=True)
class Represented:
    """The features of `Views`: z (2B, D), and those of the extra views by name."""

    z: Tensor
    extra: dict[str, Tensor] = field(default_factory=dict)


class Method(nn.Module, ABC):
    """A backbone, a layout of its features, and a projector before the contrast of the two views' content."""

    def __init__(self, backbone: Backbone, layout: Layout, projector: Projector, temperature: float = 0.1) -> None:
        super().__init__()
        if layout.dim != backbone.dim:
            raise ValueError(f"the layout has {layout.dim} features and the backbone {backbone.dim}")
        self.backbone = backbone
        self.layout = layout
        self.projector = projector
        self.temperature = temperature

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """Two views of a batch: (B,C,H,W) -> Views of (2B,C,H,W)."""
        if not stack.shuffles:
            both = stack(torch.cat([images, images]), generator)
            return Views(both.images, both.g)
        # A jitter's order is drawn once a call: two calls give the two views orders of their own.
        first, second = stack(images, generator), stack(images, generator)
        return Views(
            torch.cat([first.images, second.images]),
            {name: torch.cat([first.g[name], second.g[name]]) for name in first.g},
        )

    def represent(self, views: Views) -> Represented:
        """The features of all views; the two of a batch go through the backbone together."""
        return Represented(self.backbone(views.images))

    @abstractmethod
    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """Every term of the loss, weighted and named; their sum is the loss."""

    def losses(self, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """Every term of the loss of these views; `gather` collects rows from all processes."""
        return self.terms(self.represent(views), views, gather)

    def contrast(self, z: Tensor, gather: Gather | None = None) -> Tensor:
        """NT-Xent of the projected content, both directions: (2B, D) -> ()."""
        # Twice the mean over anchors, as the authors count: lambda then means what it means in the paper (decision 10).
        first, second = self.projector(self.layout.content(z)).chunk(2)
        return 2 * nt_xent(first, second, self.temperature, gather)
