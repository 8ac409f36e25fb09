"""Baselines: the pixels themselves, the same network with fresh weights, and k-means on whitened patches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data import Images
from ..error import DuetError
from ..groups import Group
from ..model import Encoder
from ..networks import build_backbone
from ..networks.digest import fingerprint
from ..pixels import as_float
from ..representation import Flat
from .patches import LEAST, FittedPatches
from .subject import Outsider, Subject

RIVALS = {"pixels": "pixels", "untrained": "untrained network", "patches": "k-means patches"}
"""The rivals by name, and what they are called."""
CODED = 2048  # images whose codes are reduced at a time


def rivals_of(subject: Subject, train: Images, centroids: int, seed: int = 0) -> dict[str, Subject]:
    """The rivals of a subject, by name, for images like these training images.

    An untrained network only where the subject's can be built anew, patches only where images are large enough.
    """
    dim, groups, device = subject.layout.dim, subject.groups, subject.device
    found: dict[str, Subject] = {"pixels": pixels(train.shape, dim, groups, device)}
    if isinstance(subject, Encoder) and subject.backbone.recipe is not None:
        found["untrained"] = untrained(subject, seed)
    if has_patches(train.shape):
        found["patches"] = patches(train, centroids, dim, groups, device, seed)
    return found


def has_patches(shape: tuple[int, int, int]) -> bool:
    """Whether images (C,H,W) are large enough for k-means on patches."""
    return min(shape[1:]) >= LEAST


def patches(
    train: Images,
    centroids: int,
    dim: int | None,
    groups: Mapping[str, Group],
    device: torch.device | None = None,
    seed: int = 0,
) -> Outsider:
    """k-means on whitened patches of the training images: 4 features a centroid, or the first `dim` by PCA.

    They are fitted when the first features are computed, once in a process for the same images, centroids and seed.
    """
    if not has_patches(train.shape):
        height, width = train.shape[1:]
        raise DuetError(f"k-means on patches needs images of at least {LEAST} x {LEAST} pixels, not {height} x {width}")
    where, wide, fitted = device or torch.device("cpu"), 4 * centroids, FittedPatches(train, centroids, seed)
    own = wide if dim is None else min(dim, wide, max(1, len(train) - 1))  # n images span n - 1 axes

    def features(images: Tensor) -> Tensor:
        encode, axes = fitted.encoder().to(where), None if dim is None else fitted.axes()
        codes = (encode(part.to(where)) for part in torch.split(images, CODED))
        return torch.cat([z if axes is None else axes(z, own) for z in codes])

    layout = Flat(own)
    told = {"method": "patches", "layout": layout.to_dict(), "centroids": centroids, "fitting_seed": seed}
    made = ("patches", fitted.key, dim is None, own)
    digest = hashlib.sha256(repr(made).encode()).hexdigest()[:16]
    return Outsider(features, layout, dict(groups), device=where, description=told, digest=digest)


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
