"""What an evaluation gets: the subject, the images, the sizes; features are computed once and shared."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..data import Images
from ..data.images import BATCH
from ..error import DuetError, did_you_mean
from ..groups import Group
from ..model import OrbitViews, has_spectrum, orbit_views
from ..model.fitting import action_of, spectrum_of
from ..networks.decoder import Decoder
from ..pixels import as_float
from ..progress import Track, without_bar
from ..representation import Action, FittedAction, Prescribed, Spectrum
from .bootstrap import Bootstrap
from .decoder_training import DECODERS, Training, train_decoder
from .evaluation import Inapplicable
from .grid import orbit_elements, sweep_elements
from .subject import Subject, axis_of

T = TypeVar("T")


@dataclass(frozen=True)
class Sizes:
    """How much is measured; the defaults suit two cores and small images."""

    train: int | None = None  # labelled images of classification; None: all
    test: int | None = None
    images: int = 400  # test images, each at many elements of the group
    few: int = 100  # of them, in the paper's map and in variants of the group
    sweep: int = 50  # elements of a continuous group
    copies: int = 50  # transformed copies among which retrieval ranks
    queries: int = 4  # retrieval's queries an image
    probe: int = 4000  # training images for probes and for fitting the actions
    views: int = 4  # of each of them, at random elements
    centroids: int = 100  # of the k-means patches that stand beside the subject
    decoder: str = "small"  # or "paper": size and training of the decoder
    decoder_steps: int | None = None  # of its training; None: as many as its recipe has

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise DuetError(
                f"no decoder {self.decoder!r}{did_you_mean(self.decoder, DECODERS)}; there are {', '.join(DECODERS)}"
            )
        for key, value in asdict(self).items():
            if key == "decoder":
                continue
            least = {"probe": 8}.get(key, 2 if key in ("images", "sweep", "copies", "views", "centroids") else 1)
            if value is not None and value < least:
                raise DuetError(f"{key} must be at least {least}; it is {value}")


SIZES = {
    "quick": Sizes(train=600, test=300, images=30, few=8, probe=400, centroids=50, decoder_steps=150),
    "demo": Sizes(),
    "standard": Sizes(),  # what a study calls them
    "paper": Sizes(images=1000, few=1000, sweep=100, probe=20_000, centroids=800, decoder="paper"),
}


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
class Orbit:
    """Features z (n,N,D) of N test images, each at n elements g (n,N): even steps from a random element of its own.

    `start` (N,) is a random place among the n, from which the image is moved to the others.
    """

    group: Group
    g: Tensor
    z: Tensor
    start: Tensor

    def at_start(self) -> tuple[Tensor, Tensor]:
        """Elements and features of the images where they start: (N,), (N,D)."""
        rows = torch.arange(len(self.start), device=self.z.device)
        return self.g[self.start, rows], self.z[self.start, rows]

    def goals(self) -> Tensor:
        """The places of the other elements, for every image: (n-1,N)."""
        steps = torch.arange(1, len(self.g), device=self.start.device).unsqueeze(1)
        return (self.start + steps).remainder(len(self.g))

    def of(self, images: Tensor) -> Orbit:
        """Of some of the images, by their numbers."""
        return Orbit(self.group, self.g[:, images], self.z[:, images], self.start[images])


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
            # What the patches beside it are stands in their own description.
            "sizes": {key: value for key, value in asdict(self.sizes).items() if key != "centroids"},
        }

    @property
    def device(self) -> torch.device:
        """Where the subject computes, and images are transformed."""
        return self.subject.device

    @property
    def images(self) -> Tensor:
        """The test images that are swept over the group: (N,C,H,W) float in [0,1]."""
        return self._once("images", lambda: as_float(self._draw(self.test, self.sizes.images)[0]).to(self.device))

    @property
    def image_labels(self) -> Tensor | None:
        """The classes of these images (N,), -1 where there is none; None without any."""
        return self._draw(self.test, self.sizes.images)[1]

    @property
    def probe_images(self) -> Tensor:
        """Training images for probes and for fitting actions: (N,C,H,W) uint8."""
        return self._once("probe images", lambda: self._draw(self.train, self.sizes.probe)[0].to(self.device))

    @property
    def decoder_images(self) -> Tensor:
        """Training images of the decoder: those of probes; all that there are for the paper's. (N,C,H,W) uint8"""
        if self.sizes.decoder == "small":
            return self.probe_images
        return self._once("decoder images", lambda: self._draw(self.train, len(self.train))[0].to(self.device))

    def decoder(self, noise: bool = True) -> tuple[Decoder, Training]:
        """The decoder that the sizes name, trained on these features, and how; `noise`: with that of its recipe."""
        recipe, images = DECODERS[self.sizes.decoder], self.decoder_images
        training = recipe.training(len(images), self.sizes.decoder_steps)
        training = training if noise else replace(training, noise=0.0)

        def train() -> Decoder:
            label = f"training the decoder of {self.subject.description.get('method') or 'the encoder'}"
            settings: dict[str, Any] = {"build": recipe.build, "training": training, "seed": self.seed, "label": label}
            return train_decoder(self.subject.features, images, self.group, **settings)

        return self._once(("decoder", repr(self.group), training), train), training

    def bootstrap(self, images: int) -> Bootstrap:
        """Draws of so many images."""
        return self._once(("bootstrap", images), lambda: Bootstrap(images, self.seed))

    @property
    def train_features(self) -> Labelled:
        """Features of the labelled training images, untouched."""
        return self._once("train", lambda: self._labelled(self.train, self.sizes.train))

    @property
    def test_features(self) -> Labelled:
        """Features of the test images, untouched; label -1 where there is none."""
        return self._once("test", lambda: self._labelled(self.test, self.sizes.test, keep=True))

    def test_features_at(self, g: Tensor | None) -> Tensor:
        """Features of the images of `test_features`, each at its g (n,), or as the group shows the untouched image."""
        group, sample = self.group, as_float(self.test.sample(1, self.seed))
        if g is None and torch.equal(group.mask(sample), sample):
            return self.test_features.z
        count = min(self.sizes.test or len(self.test), len(self.test))
        parts, done = [], 0
        label = f"test images under {group.name}"
        for pixels, _ in self.track(self._batches(self.test, count), -(-count // BATCH), label):
            images = as_float(pixels).to(self.device)
            own = None if g is None else g[done : done + len(images)]
            parts.append(self.subject.features(group.mask(images) if own is None else group.apply(images, own)))
            done += len(images)
        return torch.cat(parts)

    @property
    def actions(self) -> dict[str, Action]:
        """Every action on these features, by its name: the paper's where there is a table, the fitted, the spectral."""
        return self._prescribed() | self._once(("actions", self.group.name), lambda: self._fit(None))

    @property
    def foreign_actions(self) -> list[tuple[Tensor, dict[str, Action]]]:
        """Actions fitted on half of the classes, with the numbers of the others' test images; none without classes.

        Together they hold every test image with a label once.
        """
        return self._once(("foreign actions", self.group.name), self._fit_on_other_classes)

    @property
    def fitted(self) -> FittedAction:
        """The action fitted on training images: the same number for every subject, whatever action it brings."""
        found = self.actions[FittedAction.name]
        assert isinstance(found, FittedAction)
        return found

    @property
    def spectrum(self) -> Spectrum:
        """The pure harmonics of these features, found on training images."""
        if not has_spectrum(self.group):
            raise Inapplicable(f"{self.group.title or self.group.name} is no group that turns, and so has no spectrum")
        found = self.actions.get(Spectrum.name)
        if not isinstance(found, Spectrum):
            raise Inapplicable("a spectrum needs at least 4 training images")
        return found

    def views(self, group: Group | None = None, least: int = 1) -> OrbitViews:
        """Features of the probe images at random elements: what probes and actions are fitted on.

        As many views as the sizes say of the group in question, and `least` of any other.
        """
        group = group or self.group
        views = max(self.sizes.views, least) if repr(group) == repr(self.group) else least
        return self._once(("views", repr(group), views), lambda: self._views(group, views))

    def orbit(self, group: Group | None = None, images: int | None = None) -> Orbit:
        """Features of the test images, or the first few, at even steps from a random element; remembered."""
        group = group or self.group
        count = min(images or len(self.images), len(self.images))
        return self._once(("orbit", repr(group), count), lambda: self._orbit(group, count))

    def sweep(self, group: Group | None = None, g: Tensor | None = None) -> Sweep:
        """Features of the first few test images at every element, and untouched: the paper's protocol; remembered."""
        group = group or self.group
        g = sweep_elements(group, self.sizes.sweep) if g is None else g
        key = ("sweep", repr(group), tuple(g.tolist()))
        return self._once(key, lambda: self._sweep(group, g))

    def at(self, images: Tensor, g: Tensor, group: Group) -> Tensor:
        """f(tau_g x), g one number an image: (N,C,H,W), (N,) -> (N,D)."""
        return self.subject.features(group.apply(images.to(self.device), g))

    def _sweep(self, group: Group, g: Tensor) -> Sweep:
        images = self.images[: self.sizes.few]

        def features(element: float) -> Tensor:
            return self.at(images, torch.full((len(images),), element), group)

        z = torch.stack([features(e) for e in self.track(g.tolist(), len(g), f"test images under {group.name}")])
        home = (g - group.identity).abs().argmin()
        known = bool((g[home] - group.identity).abs() < 1e-6)
        return Sweep(group, g.to(z.device), z, z[home] if known else features(group.identity))

    def _orbit(self, group: Group, count: int) -> Orbit:
        images, generator = self.images[:count], self.generator("orbit")
        g = orbit_elements(group, self.sizes.sweep, count, generator)
        start = torch.randint(len(g), (count,), generator=generator)
        label = f"test images under {group.name}"
        z = torch.stack([self.at(images, elements, group) for elements in self.track(g, len(g), label)])
        return Orbit(group, g.to(z.device), z, start.to(z.device))

    def _views(self, group: Group, views: int) -> OrbitViews:
        seed = self.seed * 2**32 + zlib.crc32(b"views")
        return orbit_views(self.subject.features, self.probe_images, group, views, seed, track=self.track)

    def _prescribed(self) -> dict[str, Action]:
        axis = axis_of(self.subject, self.group)
        if axis is None:
            return {}
        return {Prescribed.name: Prescribed(self.subject.layout, axis, self.subject.relative)}

    def _fit(self, images: Tensor | None) -> dict[str, Action]:
        """The actions that are fitted, on all probe images or on some."""
        views, group = self.views(), self.group
        if images is not None:
            images = images.to(views.z.device)
            views = OrbitViews(views.z[images], views.g[images])
        kinds: list[Callable[[OrbitViews, Group], FittedAction | Spectrum]] = [action_of]
        if has_spectrum(group) and len(views.z) >= 4:
            kinds.append(spectrum_of)
        found = [fit(views, group) for fit in self.track(kinds, len(kinds), f"fitting actions of {group.name}")]
        return {action.name: action.to(views.z.dtype) for action in found}  # found in double, used as the features are

    def _fit_on_other_classes(self) -> list[tuple[Tensor, dict[str, Action]]]:
        known, tested = self._draw(self.train, self.sizes.probe)[1], self.image_labels
        if known is None or tested is None:
            return []
        classes = torch.unique(known[known >= 0])
        found = []
        for half in (classes[::2], classes[1::2]):
            images = torch.isin(tested, half).nonzero().squeeze(1)
            others = ((known >= 0) & ~torch.isin(known, half)).nonzero().squeeze(1)
            if len(images) < 2 or len(others) < 8:
                return []
            found.append((images, self._prescribed() | self._fit(others)))
        return found

    def _draw(self, source: Images, count: int) -> tuple[Tensor, Tensor | None]:
        """Drawn images (N,C,H,W) with their labels (N,)."""

        def draw() -> tuple[Tensor, Tensor | None]:
            parts = list(source.draw(count, self.seed))
            labels = [marks for _, marks in parts if marks is not None]
            return torch.cat([pixels for pixels, _ in parts]), torch.cat(labels) if len(labels) == len(parts) else None

        return self._once(("draw", source.split, count), draw)

    def _labelled(self, source: Images, count: int | None, keep: bool = False) -> Labelled:
        if source.labels is None and not keep:
            raise Inapplicable(f"{PurePath(source.name).name} has no labels")
        count = min(count or len(source), len(source))
        parts, labels = [], []
        for pixels, marks in self.track(
            self._batches(source, count), -(-count // BATCH), f"features of the {source.split} images"
        ):
            parts.append(self.subject.features(pixels))
            labels.append(torch.full((len(pixels),), -1) if marks is None else marks)
        z, y = torch.cat(parts), torch.cat(labels)
        if keep:
            return Labelled(z, y.to(z.device))
        if not bool((y >= 0).any()):
            raise Inapplicable(f"the {source.split} images of {PurePath(source.name).name} have no labels")
        known = (y >= 0).to(z.device)
        return Labelled(z[known], y.to(z.device)[known])

    def _batches(self, source: Images, count: int) -> Iterable[tuple[Tensor, Tensor | None]]:
        return source.in_order(BATCH) if count == len(source) else source.draw(count, self.seed)

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[no-any-return]
