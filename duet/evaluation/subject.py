"""Who is evaluated: any function from images to features, with what is known about its features."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..artifact import Encoder
from ..experiment import Experiment
from ..groups import Group, find_group
from ..groups.group import as_float
from ..networks import OnlineHead
from ..representation import Axis, FittedAction, Flat, Layout

Features = Callable[[Tensor], Tensor]


class Inapplicable(ValueError):
    """This evaluation cannot be done on this subject or on these images; the message says why."""


@dataclass(frozen=True)
class Subject:
    """An encoder as evaluations see it: `features` takes (N,C,H,W), uint8 or float in [0,1], to (N,D) on the CPU."""

    features: Features
    layout: Layout
    groups: Mapping[str, Group]
    actions: Mapping[str, FittedAction] = field(default_factory=dict)
    head: OnlineHead | None = None
    relative: bool = False
    description: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None  # of the weights; None when they cannot be seen
    experiment: Experiment | None = None  # how it was trained; None when it was not trained here

    def axis(self, group: Group) -> Axis | None:
        """The columns of a group; None when the features have none for it."""
        return next((axis for axis in self.layout.axes if axis.name == group.name), None)

    def needs_axis(self, group: Group) -> Axis:
        """The columns of a group, or the reason why this evaluation is left out."""
        axis = self.axis(group)
        if axis is None:
            raise Inapplicable(f"the features have no columns for {group.name}")
        return axis


def as_subject(
    encoder: Subject | Encoder | nn.Module | Features,
    groups: str | Group | tuple[str | Group, ...] = (),
    example: Tensor | None = None,
    name: str | None = None,
    batch: int = 512,
) -> Subject:
    """The subject of a trained Encoder, or of any module or function from images (B,C,H,W) in [0,1] to (B,D).

    For the latter say which groups to evaluate, and give a few example images, to learn how many features there are.
    """
    if isinstance(encoder, Subject):
        return encoder
    if isinstance(encoder, Encoder):
        return _of_encoder(encoder)
    if not callable(encoder):
        raise TypeError(f"an encoder is a function or module from images to features, not a {type(encoder).__name__}")
    if example is None or not len(example):
        raise ValueError("give a few example images, so that the number of features can be seen")
    features = _in_batches(encoder, batch)
    z = features(example[:2])
    if z.ndim != 2 or len(z) != len(example[:2]) or not z.is_floating_point():
        raise ValueError(f"an encoder returns features (B, D); for 2 images this one returned {tuple(z.shape)}")
    chosen = groups if isinstance(groups, tuple) else (groups,)
    found = [find_group(group) for group in chosen]
    return Subject(
        features,
        Flat(z.shape[1]),
        {group.name: group for group in found},
        description={"method": name or getattr(encoder, "__name__", type(encoder).__name__)},
        digest=_digest(encoder.state_dict()) if isinstance(encoder, nn.Module) else None,
    )


def load_subject(
    spec: str, groups: str | Group | tuple[str | Group, ...], example: Tensor, batch: int = 512
) -> Subject:
    """The subject of `mypkg.module:build`: a function without arguments that returns a module or a function."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise ValueError(f"an encoder is named as module:function, such as mypkg.models:build; got {spec!r}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"cannot import {module_name!r} of {spec!r}: {error}") from None
    build = getattr(module, attribute, None)
    if not callable(build):
        raise ValueError(f"{module_name} has no function {attribute!r}")
    try:
        inspect.signature(build).bind()
    except TypeError as error:
        raise ValueError(f"{spec} must build an encoder without arguments: {error}") from None
    encoder = build()
    if not callable(encoder):
        raise ValueError(f"{spec} must return a function or a module, not a {type(encoder).__name__}")
    return as_subject(encoder, groups, example, name=spec, batch=batch)


def _of_encoder(encoder: Encoder) -> Subject:
    experiment = encoder.experiment
    description = {
        "method": experiment.method,
        "lambda": None if experiment.method == "simclr" else experiment.group_weight,
        "reference": experiment.reference if experiment.method == "duet" else None,
        "layout": encoder.layout.to_dict(),
        "epochs": experiment.epochs,
        "training_seed": experiment.seed,
    }
    tensors = dict(encoder.state_dict())
    for name, action in encoder.actions.items():
        tensors |= {f"action.{name}.{key}": value for key, value in action.state_dict().items()}
    return Subject(
        encoder.features,
        encoder.layout,
        encoder.groups,
        encoder.actions,
        encoder.head,
        relative=experiment.method == "duet" and experiment.reference == "relative",
        description=description,
        digest=_digest(tensors),
        experiment=experiment,
    )


def _in_batches(encoder: nn.Module | Features, batch: int) -> Features:
    """The function with batches, evaluation mode, float images and the module's own device taken care of."""
    device = torch.device("cpu")
    if isinstance(encoder, nn.Module):
        encoder.eval()
        device = next((p.device for p in encoder.parameters()), device)

    @torch.inference_mode()
    def features(images: Tensor) -> Tensor:
        parts = [encoder(as_float(part.to(device))).cpu() for part in torch.split(images, batch)]
        return torch.cat(parts).clone()

    return features


def _digest(state: Mapping[str, Tensor]) -> str:
    """A short fingerprint of weights."""
    digest = hashlib.sha256()
    for key in sorted(state):
        digest.update(key.encode())
        digest.update(state[key].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
