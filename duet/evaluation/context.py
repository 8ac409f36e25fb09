"""What an evaluation gets: the subject, the images, the sizes; features are computed once and shared."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..actions import fit_action
from ..data import Images
from ..data.images import BATCH
from ..groups import Group
from ..groups.group import as_float
from ..representation import FittedAction
from .subject import Inapplicable, Subject

T = TypeVar("T")
Track = Callable[[Iterable[T], int, str], Iterable[T]]


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
                raise ValueError(f"{key} must be at least {least}; it is {value}")


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


def untracked(parts: Iterable[T], total: int, label: str) -> Iterable[T]:
    """No progress bar."""
    return parts


@dataclass(frozen=True)
class Context:
    """A subject, its training and test images, and the group in question."""

    subject: Subject
    train: Images
    test: Images
    group: Group
    sizes: Sizes = field(default_factory=Sizes)
    seed: int = 0
    track: Track[Any] = untracked
    folder: Path | None = None  # the run's, if all of this is its own: an evaluation may leave there what it trained
    aside: str = ""  # names what is not the run's own: results of that go to a folder of this name
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
            "weights": self.subject.digest,
            "group": self.group.name,
            "data": PurePath(self.test.name).name,
            "fingerprint": self._once("fingerprint", lambda: f"{self.train.fingerprint()}-{self.test.fingerprint()}"),
            "train_images": len(self.train),
            "test_images": len(self.test),
            "seed": self.seed,
            "sizes": asdict(self.sizes),
        }

    @property
    def images(self) -> Tensor:
        """The test images that are swept over the group: (N,C,H,W) float in [0,1]."""
        return self._once("images", lambda: as_float(self.test.sample(self.sizes.images, self.seed)))

    @property
    def probe_images(self) -> Tensor:
        """Training images for the linear probe and for fitting an action: (N,C,H,W) uint8."""
        return self._once("probe images", lambda: self.train.sample(self.sizes.probe, self.seed))

    @property
    def train_features(self) -> Labelled:
        """Features of the labelled training images, untouched."""
        return self._once("train", lambda: self._labelled(self.train, self.sizes.train))

    @property
    def test_features(self) -> Labelled:
        """Features of the test images, untouched; label -1 where there is none."""
        return self._once("test", lambda: self._labelled(self.test, self.sizes.test, keep=True))

    @property
    def action(self) -> FittedAction:
        """The action fitted on training images: the same number for every subject, whatever action it brings."""
        return self._once(("action", self.group.name), self._fit_action)

    def elements(self, group: Group) -> Tensor:
        """The elements that are swept: those of a finite group, a grid of those that training draws otherwise: (n,)."""
        if group.elements is not None:
            return torch.tensor(sorted(group.elements))
        if group.cyclic:
            return torch.arange(self.sizes.sweep) / self.sizes.sweep
        return torch.linspace(*_drawn_range(group), self.sizes.sweep)

    def sweep(self, group: Group | None = None, g: Tensor | None = None) -> Sweep:
        """Features of the test images at every element; one forward pass an image and element, then remembered."""
        group = group or self.group
        g = self.elements(group) if g is None else g
        key = ("sweep", group.name, getattr(group, "corners", None), tuple(g.tolist()))
        return self._once(key, lambda: self._sweep(group, g))

    def at(self, images: Tensor, g: Tensor, group: Group) -> Tensor:
        """f(tau_g x), g one number an image: (N,C,H,W), (N,) -> (N,D)."""
        return self.subject.features(group.apply(images, g))

    def _sweep(self, group: Group, g: Tensor) -> Sweep:
        images = self.images

        def features(element: float) -> Tensor:
            return self.at(images, torch.full((len(images),), element), group)

        z = torch.stack([features(e) for e in self.track(g.tolist(), len(g), f"{group.name} of the test images")])
        home = (g - group.identity).abs().argmin()
        known = bool((g[home] - group.identity).abs() < 1e-6)
        return Sweep(group, g, z, z[home] if known else features(group.identity))

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
            return Labelled(z, y)
        if not bool((y >= 0).any()):
            raise Inapplicable(f"the {source.split} images of {PurePath(source.name).name} have no labels")
        return Labelled(z[y >= 0], y[y >= 0])

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[no-any-return]


def _drawn_range(group: Group) -> tuple[float, float]:
    """The smallest and the largest g that training draws: a crop's scale, for one, never comes near g = 0."""
    g = group.sample(4096, torch.Generator().manual_seed(0))
    low, high = float(g.min()), float(g.max())
    return 0.0 if low < 0.01 else low, 1.0 if high > 0.99 else high
