"""Who is evaluated: any function from images to features, with what is known about its features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..error import DuetError
from ..groups import Group, find_group
from ..model import Encoder
from ..model.fitting import Features
from ..networks import OnlineHead
from ..networks.backbone import build_module
from ..networks.digest import fingerprint
from ..pixels import as_float
from ..representation import Axis, Flat, Layout
from .evaluation import Inapplicable


class Subject(Protocol):
    """An encoder as evaluations see it; `Encoder` is one."""

    @property
    def layout(self) -> Layout:
        """How its features are arranged; Flat when nothing is known."""
        ...

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups it is evaluated under, the first one first."""
        ...

    @property
    def head(self) -> OnlineHead | None:
        """A classifier of its features that was trained beside it."""
        ...

    @property
    def relative(self) -> bool:
        """Does it know differences only?"""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    @property
    def description(self) -> Mapping[str, Any]:
        """Plain values that say what it is."""
        ...

    @property
    def digest(self) -> str | None:
        """A fingerprint of its weights; None when they cannot be seen."""
        ...

    def features(self, images: Tensor) -> Tensor:
        """(N,C,H,W), uint8 or float in [0,1] -> (N,D) on its device."""
        ...


@dataclass(frozen=True)
class Outsider:
    """A module or function that was not trained here: all that is known is what it does to images."""

    function: Features
    layout: Layout
    groups: Mapping[str, Group]
    head: OnlineHead | None = None
    relative: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    description: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    module: nn.Module | None = None
    """What the function calls, if it is a module."""

    def features(self, images: Tensor) -> Tensor:
        """What the function returns."""
        return self.function(images)


def axis_of(subject: Subject, group: Group) -> Axis | None:
    """The columns of a group; None when the features have none for it."""
    return next((axis for axis in subject.layout.axes if axis.name == group.name), None)


def need_axis(subject: Subject, group: Group) -> Axis:
    """The columns of a group, or the reason why an evaluation is left out."""
    axis = axis_of(subject, group)
    if axis is None:
        raise Inapplicable(f"the features have no columns for {group.name}")
    return axis


def as_subject(
    encoder: Subject | nn.Module | Features,
    groups: str | Group | tuple[str | Group, ...] = (),
    example: Tensor | None = None,
    name: str | None = None,
    batch: int = 512,
    device: torch.device | None = None,
) -> Subject:
    """The subject of a trained Encoder, or of any module or function from images (B,C,H,W) in [0,1] to (B,D).

    For the latter say which groups to evaluate, and give a few example images, to learn how many features there are.
    """
    if isinstance(encoder, Encoder | Outsider):
        return encoder
    if not callable(encoder):
        raise TypeError(f"an encoder is a function or module from images to features, not a {type(encoder).__name__}")
    if example is None or not len(example):
        raise DuetError("give a few example images, so that the number of features can be seen")
    function, where = _in_batches(encoder, batch, device)
    z = function(example[:2])
    if z.ndim != 2 or len(z) != len(example[:2]) or not z.is_floating_point():
        raise DuetError(f"an encoder returns features (B, D); for 2 images this one returned {tuple(z.shape)}")
    found = [find_group(group) for group in (groups if isinstance(groups, tuple) else (groups,))]
    layout = Flat(z.shape[1])
    return Outsider(
        function,
        layout,
        {group.name: group for group in found},
        device=where,
        description={
            "method": name or getattr(encoder, "__name__", type(encoder).__name__),
            "layout": layout.to_dict(),
        },
        digest=fingerprint(encoder.state_dict()) if isinstance(encoder, nn.Module) else None,
        module=encoder if isinstance(encoder, nn.Module) else None,
    )


def load_subject(
    spec: str,
    groups: str | Group | tuple[str | Group, ...],
    example: Tensor,
    batch: int = 512,
    device: torch.device | None = None,
) -> Subject:
    """The subject of `mypkg.module:build`, called with channels= if it takes that: a module or a function."""
    encoder = build_module(spec, channels=example.shape[1])
    if not callable(encoder):
        raise DuetError(f"{spec} must return a function or a module, not a {type(encoder).__name__}")
    return as_subject(encoder, groups, example, name=spec, batch=batch, device=device)


def _in_batches(
    encoder: nn.Module | Features, batch: int, device: torch.device | None
) -> tuple[Features, torch.device]:
    """The function with batches, evaluation mode, float images and the module's own device taken care of."""
    where = device or torch.device("cpu")
    if isinstance(encoder, nn.Module):
        encoder.eval()
        encoder = encoder if device is None else encoder.to(device)
        where = next((p.device for p in encoder.parameters()), where)

    @torch.inference_mode()
    def features(images: Tensor) -> Tensor:
        return torch.cat([encoder(as_float(part.to(where))) for part in torch.split(images, batch)]).clone()

    return features, where
