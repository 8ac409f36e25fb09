"""Baselines: the pixels themselves, the same network with fresh weights, and k-means on whitened patches."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import Images
from ..error import DuetError
from ..groups import Group
from ..model import Encoder
from ..networks import Backbone, build_backbone
from ..networks.digest import fingerprint
from ..pixels import as_float
from ..plugin import is_spec
from ..representation import Flat
from .patches import LEAST, FittedPatches
from .subject import Outsider, Subject, as_subject

RIVALS = {"pixels": "pixels", "untrained": "untrained network", "patches": "k-means patches"}
"""The rivals by name, and what they are called."""
ATTEMPTS = 3  # seeds that are tried, until fresh weights differ from those that are there
APART = 1_000_003  # between these seeds, so that they are no other run's
CODED = 2048  # images whose codes are reduced at a time


def rivals_of(subject: Subject, train: Images, centroids: int, seed: int = 0) -> dict[str, Subject]:
    """The rivals of a subject, by name, for images like these training images.

    An untrained network only where fresh weights can be drawn, patches only where images are large enough.
    """
    dim, groups, device = subject.layout.dim, subject.groups, subject.device
    found: dict[str, Subject] = {"pixels": pixels(train.shape, dim, groups, device)}
    fresh = untrained(subject, seed) if isinstance(subject, Encoder) else _untrained_module(subject, train, seed)
    if fresh is not None:
        found["untrained"] = fresh
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


def untrained(encoder: Encoder, seed: int = 0) -> Outsider | None:
    """The network of an encoder with fresh weights and the same normalisation of its input; no columns are claimed.

    None where fresh weights cannot be drawn.
    """
    backbone = _fresh_backbone(encoder, seed)
    if backbone is None:
        return None
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


def reset_weights(module: nn.Module, seed: int) -> nn.Module | None:
    """A copy with fresh weights, drawn as its parts draw them; None where a matrix of it cannot be drawn anew.

    A module that seeded itself may hold the very weights that `seed` draws; another seed is then taken.
    """
    before = list(module.parameters())
    for attempt in range(ATTEMPTS):
        fresh = copy.deepcopy(module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + attempt * APART)
            for part in fresh.modules():
                reset = getattr(part, "reset_parameters", getattr(part, "_reset_parameters", None))
                if callable(reset):
                    reset()
        pairs = [(old, new) for old, new in zip(before, fresh.parameters(), strict=True) if old.ndim > 1]
        changed = [not torch.equal(old, new) for old, new in pairs]
        # Zeros or ones may well be what a part starts from.
        as_drawn = [differs or _is_constant(new) for differs, (_, new) in zip(changed, pairs, strict=True)]
        if any(changed) and all(as_drawn):
            return fresh
    return None


def _is_constant(values: Tensor) -> bool:
    return bool((values == values.flatten()[0]).all())


def _fresh_backbone(encoder: Encoder, seed: int) -> Backbone | None:
    """The backbone built anew; a copy with weights reset where the user builds it, who may seed it or load weights."""
    recipe, known = encoder.backbone.recipe, fingerprint(dict(encoder.backbone.named_parameters()))
    if recipe is None or is_spec(str(recipe["name"])):
        fresh = reset_weights(encoder.backbone, seed)
        assert fresh is None or isinstance(fresh, Backbone)
        return fresh
    for attempt in range(ATTEMPTS):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + attempt * APART)
            built = build_backbone(**recipe, image_size=encoder.image_size or (32, 32))
        if fingerprint(dict(built.named_parameters())) != known:
            return built
    return None


def _untrained_module(subject: Subject, train: Images, seed: int) -> Subject | None:
    """The same module with fresh weights; None of a function, or where fresh weights cannot be drawn."""
    module = subject.module if isinstance(subject, Outsider) else None
    fresh = None if module is None else reset_weights(module, seed)
    if fresh is None:
        return None
    example = train.sample(1, 0).expand(2, -1, -1, -1)
    return as_subject(fresh, tuple(subject.groups.values()), example, name="untrained", device=subject.device)
