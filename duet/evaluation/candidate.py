"""Who is scored: an encoder by whatever name it goes, made ready for images that all of them share."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..error import DuetError, did_you_mean, first_line
from ..file import does_not_exist
from ..groups import Group
from ..installation import install_command
from ..model import Encoder, load
from ..model.hub import find_model
from ..networks import BACKBONES, build_backbone
from ..networks.backbone import TIMM, build_module
from ..plugin import is_spec
from ..representation import Flat
from .context import Sizes
from .input import batch_of, fit_images
from .rival import patches, pixels, reset_weights, untrained
from .subject import Outsider, Subject, as_subject

UNTRAINED = "untrained:"
PIXELS = "pixels"
PATCHES = "patches"
SIZED = (PIXELS, PATCHES)
"""Those that take as many features as the first of the others has."""
WIDTH = 128  # numbers that pixels are pooled to where no encoder says how many

Groups = Mapping[str, Group]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A subject with its name; the module whose layers can be looked into; who it must be better than."""

    name: str
    subject: Subject
    module: nn.Module | None = None
    fresh: Subject | None = None
    """The same network with fresh weights, where it can be made."""
    rival: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that say how it sees images."""


class Named(ABC):
    """An encoder that was asked for by name, before the images are opened."""

    name: str
    size: tuple[int, int] | None = None  # of the images that it was made for

    @abstractmethod
    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """Make it ready for these images; `width`: how many features others have."""


def find_encoder(name: str, device: torch.device, turns: int | None = None, centroids: int = Sizes.centroids) -> Named:
    """A run, a model's folder, a shipped model, a Hub id, timm:NAME, module:build, or a baseline.

    Baselines: pixels, untrained:NAME, patches (of so many `centroids`), patches:K and patches:K/FEATURES.
    """
    if name == PIXELS:
        return _Pixels()
    if is_baseline(name):
        return _Patches(name, centroids)
    if name.startswith(UNTRAINED):
        return _Untrained(name)
    if name.startswith(TIMM):
        return _Timm(name)
    if is_spec(name):
        return _Module(name)
    return _Trained(name, device, turns)


def check_encoder_name(name: str) -> None:
    """Refuse the name of an encoder that cannot exist, or of a file that does not, before anything is opened."""
    if name.startswith(UNTRAINED):
        _Untrained(name)
    elif name.endswith(".parquet"):
        if not Path(name).exists():
            raise DuetError(does_not_exist(name))
    elif not (is_baseline(name) or name.startswith(TIMM) or is_spec(name)):
        hint = did_you_mean(name, SIZED)
        if hint and not Path(name).exists():
            raise DuetError(f"no encoder {name!r}{hint}; else a run, a model, {TIMM}NAME or module:build")
        find_model(name)


def is_baseline(name: str) -> bool:
    """Whether a name is that of the pixels or of patches; patches:build is a function of the user's."""
    return name == PIXELS or re.fullmatch(rf"{PATCHES}(:[\d/].*)?", name) is not None


class _Pixels(Named):
    name = PIXELS

    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """The image itself, pooled."""
        return Candidate(self.name, pixels(images.shape, width, groups, device), rival=True)


class _Patches(Named):
    """k-means on whitened patches of the training images."""

    def __init__(self, name: str, centroids: int) -> None:
        self.name, self.centroids, self.dim = name, centroids, None
        if name == PATCHES:
            return
        found = re.fullmatch(rf"{PATCHES}:(\d{{1,6}})(?:/(\d{{1,6}}))?", name)
        count, dim = (None if part is None else int(part) for part in found.groups()) if found else (0, None)
        if count is None or count < 2 or dim == 0:
            raise DuetError(f"{name}: say {PATCHES}, {PATCHES}:800 or {PATCHES}:800/256, for centroids and features")
        self.centroids, self.dim = count, dim

    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """Four features a centroid, reduced where a width is named or, with no number at all, to that of the others."""
        dim = width if self.name == PATCHES else self.dim
        subject = patches(images, self.centroids, dim, groups, device, seed)
        return Candidate(self.name, subject, rival=True, facts={"centroids": self.centroids})


class _Trained(Named):
    """What `duet.load` finds."""

    def __init__(self, name: str, device: torch.device, turns: int | None) -> None:
        self.encoder = load(name, device, turns=turns)
        self.name, self.size = Path(name).name if Path(name).exists() else name, self.encoder.image_size

    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """The encoder itself where the images are as it knows them, else behind a resize."""
        encoder = self.encoder
        fresh = untrained(encoder, seed)
        facts = {"image_size": None if self.size is None else list(self.size), "channels": encoder.channels}
        if encoder.channels == 1 and images.channels == 3 and not images.is_grey():
            log.warning("%s takes grey images, and these are in colour: it sees them in grey", self.name)
        if (self.size in (None, images.shape[1:])) and encoder.channels == images.channels:
            return Candidate(self.name, encoder, encoder.backbone, fresh, facts=facts)
        own = Outsider(
            encoder.features,
            encoder.layout,
            encoder.groups,
            encoder.head,
            encoder.relative,
            encoder.device,
            encoder.description,
            encoder.digest,
        )
        subject = _resized(own, encoder.channels, self.size)
        fresh = None if fresh is None else _resized(fresh, encoder.channels, self.size)
        return Candidate(self.name, subject, encoder.backbone, fresh, facts=facts)


class _Untrained(Named):
    """A backbone of ours with fresh weights."""

    def __init__(self, name: str) -> None:
        self.name, self.backbone = name, name.removeprefix(UNTRAINED)
        if self.backbone not in BACKBONES:
            hint = did_you_mean(self.backbone, BACKBONES)
            raise DuetError(f"no encoder {self.backbone!r}{hint}; {UNTRAINED} takes {', '.join(BACKBONES)}")

    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """Built for these images' channels, which are standardised as training would."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone = build_backbone(self.backbone, channels=images.channels)
        backbone.normalise_by(*images.statistics())
        encoder = Encoder(backbone, Flat(backbone.dim), groups.values()).to(device)
        facts = {"training_seed": seed, "channels": images.channels}
        return Candidate(self.name, encoder, backbone, rival=True, facts=facts)


class _Module(Named):
    """What a function of the user's builds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """Called with the images' channels; gets them in [0, 1], as they are."""
        made = build_module(self.name, images.channels)
        if not callable(made):
            raise DuetError(f"{self.name} must return a function or a module, not a {type(made).__name__}")
        module = made if isinstance(made, nn.Module) else None
        fresh = None if module is None else reset_weights(module, seed)
        told = {"image_size": list(images.shape[1:]), "channels": images.channels}
        return _candidate(self.name, made, fresh, images, groups, device, told)


class _Timm(Named):
    """A pretrained model of timm, with the size and normalisation that it was trained with.

    timm itself needs torchvision, which duet does not: the tests run this with a stand-in of the same interface.
    """

    def __init__(self, name: str) -> None:
        self.name, own = name, name.removeprefix(TIMM)
        if not re.fullmatch(r"[\w.-]+", own):
            raise DuetError(f"{name}: timm is asked for models by their plain names, such as timm:resnet18")
        try:
            import timm
        except ImportError:
            raise DuetError(f"{name} needs timm: {install_command('timm')}") from None
        try:
            self.model = timm.create_model(own, pretrained=True, num_classes=0).eval()
            config = timm.data.resolve_model_data_config(self.model)
        except Exception as error:  # names, weights and the Hub each fail in their own way
            raise DuetError(f"timm cannot give {own!r} with its weights: {first_line(error)}") from None
        self.channels, *size = (int(side) for side in config["input_size"])
        self.size = (size[0], size[1])
        self.mean, self.std = (tuple(float(v) for v in config[key]) for key in ("mean", "std"))

    def build(self, images: Images, groups: Groups, device: torch.device, seed: int, width: int) -> Candidate:
        """Behind its own resize and normalisation, which the row records."""
        told = {
            **{"image_size": list(self.size or ()), "channels": self.channels},
            **{"mean": list(self.mean), "std": list(self.std)},
        }
        own, fresh = self._seen(self.model), reset_weights(self.model, seed)
        found = None if fresh is None else self._seen(fresh)
        return replace(_candidate(self.name, own, found, images, groups, device, told), module=self.model)

    def _seen(self, model: nn.Module) -> nn.Module:
        return _Prepared(model, self.channels, self.size or (224, 224), self.mean, self.std)


class _Prepared(nn.Module):
    """A model that gets images in [0, 1] of any size: (B,C,H,W) -> (B,D)."""

    mean: Tensor
    std: Tensor

    def __init__(
        self, model: nn.Module, channels: int, size: tuple[int, int], mean: Sequence[float], std: Sequence[float]
    ) -> None:
        super().__init__()
        self.model, self.channels, self.size = model, channels, size
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.model((fit_images(images, self.channels, self.size) - self.mean) / self.std)  # type: ignore[no-any-return]


def _candidate(
    name: str,
    made: Any,
    fresh: nn.Module | None,
    images: Images,
    groups: Groups,
    device: torch.device,
    told: Mapping[str, Any],
) -> Candidate:
    example = images.sample(1, 0).expand(2, -1, -1, -1)
    size = told["image_size"]
    batch = batch_of(int(told["channels"]), (int(size[0]), int(size[1])))
    kinds = tuple(groups.values())
    subject = as_subject(made, kinds, example, name=name, batch=batch, device=device)
    other = None
    if fresh is not None:
        other = as_subject(fresh, kinds, example, name=f"untrained {name}", batch=batch, device=device)
    return Candidate(name, subject, made if isinstance(made, nn.Module) else None, other, facts=told)


def _resized(subject: Outsider, channels: int, size: tuple[int, int] | None) -> Outsider:
    """The same behind a resize, a few images at a time."""
    inner = subject.function

    def features(images: Tensor) -> Tensor:
        batch = batch_of(images.shape[1], (images.shape[2], images.shape[3]))
        parts = [inner(fit_images(part.to(subject.device), channels, size)) for part in torch.split(images, batch)]
        return torch.cat(parts)

    return replace(subject, function=features, module=None)  # which takes images of its own size only
