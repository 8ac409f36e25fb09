"""What a pre-training method is: it draws views of a batch, represents them, and names the terms of its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..error import DuetError, did_you_mean
from ..groups import Group, Stack, View
from ..networks import Backbone, Projector
from ..objectives import Contrast, Gather, contrast_views
from ..representation import Layout


@dataclass(frozen=True)
class Views:
    """Views of a batch, one after another in one tensor, with their g; and what else a method asked for."""

    images: Tensor  # (count * B, C, H, W): all of the first view, then all of the second, ...
    g: dict[str, Tensor]  # (count * B,) for every tracked group
    count: int = 2
    extra: dict[str, View] = field(default_factory=dict)

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """What belongs to each view, of anything with a row for every image: (count * B, ...) -> count x (B, ...)."""
        return rows.chunk(self.count)

    def pairs(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the second rows of every unordered pair of views: (count * B, ...) -> 2 x (pairs * B, ...)."""
        first, second = zip(*combinations(self.split(rows), 2), strict=True)
        return torch.cat(first), torch.cat(second)


@dataclass(frozen=True)
class Represented:
    """The features of `Views`: z, a row for every image of the views, and those of the extra views by name."""

    z: Tensor
    extra: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Parts:
    """What a run has made ready for its method; a method takes what it needs."""

    backbone: Backbone
    layout: Layout
    groups: tuple[Group, ...]
    projector: Callable[[int], Projector]  # from the width of what it projects
    contrast: Contrast
    hidden: int  # width of further heads


class Method(nn.Module, ABC):
    """A backbone with a layout of its features, and what is asked of them.

    A method of your own sets `name` and `title`, implements `terms` and, unless its constructor takes the backbone, the
    layout and its options by name, `build`; register it with `register_method`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    structured: ClassVar[bool] = False
    """Whether the features are a table with columns for every group; else they are flat."""
    words: ClassVar[Mapping[str, str]] = {}
    """The terms of its loss in plain words, for whoever draws them."""
    view_count: int = 2
    """How many views of an image are drawn; a run may set it."""
    progress: float = 0.0
    """The share of the training that is done, from 0 to below 1; the engine sets it before every batch."""

    @dataclass(frozen=True)
    class Options:
        """The method's own settings: frozen, with defaults. Those named like a key of a run are filled by it."""

    def __init__(self, backbone: Backbone, layout: Layout) -> None:
        super().__init__()
        if layout.dim != backbone.dim:
            raise DuetError(f"the layout has {layout.dim} features and the backbone {backbone.dim}")
        self.backbone = backbone
        self.layout = layout

    @classmethod
    def build(cls, parts: Parts, options: Any) -> Method:
        """The method of these parts, with fresh weights."""
        return cls(parts.backbone, parts.layout, **asdict(options))

    @classmethod
    def check(cls, groups: Sequence[Group]) -> None:
        """Raise DuetError where these groups have no meaning for the method."""

    @property
    def draws_own_views(self) -> bool:
        """Whether it asks for other views than a stack's: such views cannot be drawn once and cached."""
        return type(self).draw_views is not Method.draw_views

    def draw_views(self, images: Tensor, stack: Stack, generator: torch.Generator) -> Views:
        """`view_count` views of a batch, and extra ones if the method overrides this: (B,C,H,W) -> Views."""
        if not stack.shuffles:
            both = stack(images.repeat(self.view_count, 1, 1, 1), generator)
            return Views(both.images, both.g, self.view_count)
        # A jitter's order is drawn once a call: calls of their own give the views orders of their own.
        drawn = [stack(images, generator) for _ in range(self.view_count)]
        g = {name: torch.cat([view.g[name] for view in drawn]) for name in drawn[0].g}
        return Views(torch.cat([view.images for view in drawn]), g, self.view_count)

    def represent(self, views: Views) -> Represented:
        """The features of all views; those of a batch go through the backbone together."""
        return Represented(self.backbone(views.images))

    @abstractmethod
    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """Every term of the loss, weighted and named; their sum is the loss."""

    def losses(self, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """Every term of the loss of these views; `gather` collects rows from all processes."""
        return self.terms(self.represent(views), views, gather)

    def after_step(self, step: int) -> None:
        """Called after every step of the optimiser, the first is step 0: an averaged network follows here."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What the optimiser trains: groups of `params`, each with options of its own if it needs any."""
        return [{"params": [p for p in self.parameters() if p.requires_grad]}]


METHODS: dict[str, type[Method]] = {}
"""Every registered method, by name."""


def register_method(method: type[Method]) -> type[Method]:
    """Make a method known by its name, so that training can use it; returns it, so that it decorates a class too."""
    if not isinstance(method, type) or not issubclass(method, Method):
        raise TypeError("register_method takes a class that inherits from Method")
    name = getattr(method, "name", "")
    if not name.replace("_", "").isalnum():
        raise DuetError(f"{method.__name__} needs a name of letters, digits and _; it is {name!r}")
    if name in METHODS:
        raise DuetError(f"a method named {name!r} is registered already; give yours another name")
    if not getattr(method, "title", ""):
        method.title = name
    METHODS[name] = method
    return method


def find_method(name: str) -> type[Method]:
    """The method of that name."""
    if name not in METHODS:
        titles = {key: method.title for key, method in METHODS.items()}
        raise DuetError(f"no method {name!r}{did_you_mean(name, titles)}; there are {', '.join(METHODS)}")
    return METHODS[name]


def content_loss(parts: Sequence[Tensor], contrast: Contrast, gather: Gather | None = None) -> Tensor:
    """Twice the contrast of the views, the mean over pairs of them: V x (B, d) -> ().

    The authors count both directions of a pair: lambda then means what it means in the paper (decision 10).
    """
    return 2 * contrast_views(parts, contrast, gather)


def check_weight(weight: float) -> float:
    """The weight of a term, not negative."""
    if not weight >= 0:
        raise DuetError(f"the weight of the group loss cannot be negative; it is {weight}")
    return weight
