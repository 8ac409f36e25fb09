"""Rivals that have learned nothing: the pixels themselves, and the same network with fresh weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from ..groups import Group
from ..model import Encoder
from ..networks import build_backbone
from ..networks.digest import fingerprint
from ..pixels import as_float
from ..representation import Flat
from .subject import Outsider, Subject

RIVALS = {"pixels": "pixels", "untrained": "untrained network"}
"""The rivals by name, and what they are called."""


def rivals_of(subject: Subject, shape: tuple[int, int, int], seed: int = 0) -> dict[str, Subject]:
    """Both rivals of a subject for images (C,H,W); an untrained network only where the subject's can be built anew."""
    found: dict[str, Subject] = {"pixels": pixels(shape, subject.layout.dim, subject.groups, subject.device)}
    if isinstance(subject, Encoder) and subject.backbone.recipe is not None:
        found["untrained"] = untrained(subject, seed)
    return found


def pixels(
    shape: tuple[int, int, int], dim: int, groups: Mapping[str, Group], device: torch.device | None = None
) -> Outsider:
    """The image itself, averaged over cells so that about `dim` numbers are left: images (C,H,W)."""
    channels, height, width = shape
    side = max(1, round((dim / channels) ** 0.5))
    size = (min(side, height), min(side, width))

    def features(images: Tensor) -> Tensor:
        where = device or images.device
        return torch.cat(
            [F.adaptive_avg_pool2d(as_float(part.to(where)), size).flatten(1) for part in torch.split(images, 2048)]
        )

    layout = Flat(channels * size[0] * size[1])
    told = {"method": "pixels", "layout": layout.to_dict()}
    digest = hashlib.sha256(repr((channels, size)).encode()).hexdigest()[:16]
    return Outsider(
        features, layout, dict(groups), device=device or torch.device("cpu"), description=told, digest=digest
    )


def untrained(encoder: Encoder, seed: int = 0) -> Outsider:
    """The network of an encoder with fresh weights and the same normalisation of its input; no columns are claimed."""
    recipe = encoder.backbone.recipe
    assert recipe is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = build_backbone(**recipe, image_size=encoder.image_size or (32, 32))
    backbone.normalise_by(encoder.backbone.mean.flatten(), encoder.backbone.std.flatten())
    own = Encoder(backbone, Flat(backbone.dim), encoder.groups.values(), image_size=encoder.image_size)
    own = own.to(encoder.device)
    told = {"method": "untrained", "layout": own.layout.to_dict(), "training_seed": seed}
    return Outsider(
        own.features,
        own.layout,
        dict(own.groups),
        device=own.device,
        description=told,
        digest=fingerprint(own.state_dict()),
    )
