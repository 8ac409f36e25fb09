"""What an evaluation gets: the subject, the images, the sizes; features are computed once and shared."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..data import Images
from ..data.images import BATCH
from ..error import DuetError
from ..groups import Group
from ..model import fit_action
from ..pixels import as_float
from ..progress import Track, without_bar
from ..representation import Action, FittedAction, Prescribed
from .evaluation import Inapplicable
from .grid import sweep_elements
from .subject import Subject, axis_of

T = TypeVar("T")


@dataclass(frozen=True)
class Sizes:
    """How much is measured; the defaults suit two cores and small images."""

    train: int | None = None  # labelled images of classification; None: all
    test: int | None = None
    images: int = 400  # test images that are swept over the group
    sweep: int = 50  # elements of a continuous group
    copies: int = 50  # transformed copies among which retrieval ranks
    queries: int = 4  # retrieval's queries an image
    probe: int = 4000  # transformed training images of the linear probe
    pairs: int = 12_000  # of the fitted action
    decoder_steps: int = 1500  # of the decoder's training

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            least = 2 if key in ("images", "sweep", "copies", "probe") else 1
            if value is not None and value < least:
                raise DuetError(f"{key} must be at least {least}; it is {value}")


SIZES = {"demo": Sizes(), "paper": Sizes(images=1000, sweep=100, probe=20_000)}


@dataclass(frozen=True)
class Labelled:
    """Features z (N,D) of the labelled images, and their labels (N,)."""

    z: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Sweep:
    """Features z (n,N,D) of N test images at the n elements g, and those of the images at the identity (N,D)."""

    group: Group
    g: Tensor
    z: Tensor
    base: Tensor


@dataclass(frozen=True)
class Context:
    """A subject, its training and test images, and the group in question."""

    subject: Subject
    train: Images
    test: Images
    group: Group
    sizes: Sizes = field(default_factory=Sizes)
    seed: int = 0
    track: Track[Any] = without_bar
    groups: tuple[Group, ...] = ()  # all that are evaluated; none: the subject's own
    transfer: tuple[str, ...] = ()  # other sets of images, for the evaluation of that name
    run: Path | None = None  # the run's folder, if all of this is its own: what an evaluation trains may be kept there
    subfolder: str = ""  # of the results, where images or group are not the run's own; named after what differs
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def with_group(self, group: Group) -> Context:
        """The same subject and images, and what was computed already, for another group."""
        return replace(self, group=group)

    def generator(self, purpose: str) -> torch.Generator:
        """A generator of its own for every purpose, so that the order of evaluations changes nothing."""
        return torch.Generator().manual_seed(self.seed * 2**32 + zlib.crc32(purpose.encode()))

    def provenance(self) -> dict[str, Any]:
        """What is measured on what; two runs with the same answer give the same result."""
        return {
            **self.subject.description,
            "weights": self._once("weights", lambda: self.subject.digest),
            **self.group.describe(),
            "data": PurePath(self.test.name).name,
            "fingerprint": self._once("fingerprint", lambda: f"{self.train.fingerprint()}-{self.test.fingerprint()}"),
            "train_images": len(self.train),
            "test_images": len(self.test),
            "seed": self.seed,
            "sizes": asdict(self.sizes),
        }

    @property
    def device(self) -> torch.device:
        """Where the subject computes, and images are transformed."""
        return self.subject.device

    @property
    def images(self) -> Tensor:
        """The test images that are swept over the group: (N,C,H,W) float in [0,1]."""
        return self._once("images", lambda: as_float(self.test.sample(self.sizes.images, self.seed)).to(self.device))

    @property
    def probe_images(self) -> Tensor:
        """Training images for the linear probe and for fitting an action: (N,C,H,W) uint8."""
        return self._once("probe images", lambda: self.train.sample(self.sizes.probe, self.seed).to(self.device))

    @property
    def train_features(self) -> Labelled:
        """Features of the labelled training images, untouched."""
        return self._once("train", lambda: self._labelled(self.train, self.sizes.train))

    @property
    def test_features(self) -> Labelled:
        """Features of the test images, untouched; label -1 where there is none."""
        return self._once("test", lambda: self._labelled(self.test, self.sizes.test, keep=True))

    @property
    def actions(self) -> dict[str, Action]:
        """Every action on these features, by its name: the paper's where there is a table, and the fitted one."""
        axis = axis_of(self.subject, self.group)
        own: list[Action] = [] if axis is None else [Prescribed(self.subject.layout, axis, self.subject.relative)]
        return {action.name: action for action in (*own, self.fitted)}

    @property
    def fitted(self) -> FittedAction:
        """The action fitted on training images: the same number for every subject, whatever action it brings."""
        return self._once(("fitted", self.group.name), self._fit_action)

    def sweep(self, group: Group | None = None, g: Tensor | None = None) -> Sweep:
        """Features of the test images at every element; one forward pass an image and element, then remembered."""
        group = group or self.group
        g = sweep_elements(group, self.sizes.sweep) if g is None else g
        key = ("sweep", repr(group), tuple(g.tolist()))
        return self._once(key, lambda: self._sweep(group, g))

    def at(self, images: Tensor, g: Tensor, group: Group) -> Tensor:
        """f(tau_g x), g one number an image: (N,C,H,W), (N,) -> (N,D)."""
        return self.subject.features(group.apply(images.to(self.device), g))

    def _sweep(self, group: Group, g: Tensor) -> Sweep:
        images = self.images

        def features(element: float) -> Tensor:
            return self.at(images, torch.full((len(images),), element), group)

        z = torch.stack([features(e) for e in self.track(g.tolist(), len(g), f"{group.name} of the test images")])
        home = (g - group.identity).abs().argmin()
        known = bool((g[home] - group.identity).abs() < 1e-6)
        return Sweep(group, g.to(z.device), z, z[home] if known else features(group.identity))

    def _fit_action(self) -> FittedAction:
        features, pairs = self.subject.features, self.sizes.pairs
        return fit_action(features, self.probe_images, self.group, pairs=pairs, seed=self.seed)

    def _labelled(self, source: Images, count: int | None, keep: bool = False) -> Labelled:
        if source.labels is None and not keep:
            raise Inapplicable(f"{PurePath(source.name).name} has no labels")
        count = min(count or len(source), len(source))
        batches = source.in_order(BATCH) if count == len(source) else source.draw(count, self.seed)
        parts, labels = [], []
        for pixels, marks in self.track(batches, -(-count // BATCH), f"features of the {source.split} images"):
            parts.append(self.subject.features(pixels))
            labels.append(torch.full((len(pixels),), -1) if marks is None else marks)
        z, y = torch.cat(parts), torch.cat(labels)
        if keep:
            return Labelled(z, y.to(z.device))
        if not bool((y >= 0).any()):
            raise Inapplicable(f"the {source.split} images of {PurePath(source.name).name} have no labels")
        known = (y >= 0).to(z.device)
        return Labelled(z[known], y.to(z.device)[known])

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[no-any-return]
