"""Sets without an upright: images brought to one common angle, by the codes of any encoder's spectrum."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..data.decoding import quiet
from ..data.input import Pictures, picture_batches
from ..error import DuetError
from ..groups import Group, find_group
from ..model import Encoder, has_spectrum, orbit_views, spectrum_of
from ..networks import wrap
from ..pixels import check_shape
from ..progress import track
from ..representation import Flat, Spectrum
from ..representation.alignment import NEAR, Codes, align_codes
from ..representation.turn import phases

TURNS = 4
"""Turned copies of each image whose codes are averaged: an untouched image is sharper than any that was turned."""
FITTED_IMAGES = 1024  # a spectrum is fitted to at most so many images,
FITTED_VIEWS = 4096  # and to about so many views, at least 4 and at most 64 of each
LEAST_IMAGES = 8
PIXELS = (32, 8)
"""The side of images that are aligned by their own pixels, and that of the grid which those are averaged to."""

Features = Callable[[Tensor], Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class Alignment:
    """How far every image is turned from the common angle of its set.

    `by` (N,): in shares of the circle, in (-1/2, 1/2]; `value` (N,): the same in the group's `unit`, for rotations
    degrees counter-clockwise. Turn an image by minus that, as `turned` does, and it stands as the others.
    `probability` (N,): that `by` is within 1/8 of the circle of the truth, or the right element of a finite group.
    `coherence`: by set, the share of its codes that is common to all: 1 for turned copies of one image.
    """

    group: Group
    by: Tensor
    probability: Tensor
    coherence: dict[Hashable, float]

    @property
    def value(self) -> Tensor:
        """The turns in the group's unit: (N,)."""
        low, high = self.group.span
        return self.by * (high - low)

    @property
    def unit(self) -> str:
        """What `value` is counted in."""
        return self.group.unit

    def turned(self, images: Tensor) -> Tensor:
        """The same images (N,C,H,W), each turned to the common angle, float in [0,1]."""
        g = self.group.domain.wrap(self.group.identity - self.by)
        return self.group.apply(images, g.to(images.device))


def align(
    images: Pictures,
    encoder: Encoder | Features | None = None,
    group: Group | str | None = None,
    sets: Sequence[Hashable] | None = None,
    spectrum: Spectrum | None = None,
    turns: int = TURNS,
    batch_size: int = 256,
) -> Alignment:
    """Bring images to one common angle: by their codes in the encoder's spectrum, aligned to their own mean.

    `encoder`: a trained model, or any function from images (B,C,H,W) in [0,1] to features (B,D); the latter takes a
    tensor (N,C,H,W). None: the images' own pixels. `group`: what the images were turned by, by default the model's own.
    `sets`: a name for each image; images of one name are aligned with each other only. `turns`: turned copies of each
    image to look at.

    The spectrum is fitted to these very images, turned at random: it reads them better than one that was fitted to
    others. Give another as `spectrum`, such as the model's own, `encoder.actions["rot360"]["spectral"]`.
    """
    encoder = pixel_encoder() if encoder is None else encoder
    chosen = find_turning_group(encoder, group)
    if turns < 1:
        raise DuetError(f"turns start at 1, not {turns}")
    pixels = _pixels(images, encoder, batch_size)
    names = [None] * len(pixels) if sets is None else list(sets)
    if len(names) != len(pixels):
        raise DuetError(f"{len(names)} names of sets for {len(pixels)} images; give one for each")
    rows: dict[Hashable, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    if max(map(len, rows.values()), default=0) < 2:
        raise DuetError(
            "there is nothing to align: it takes at least 2 images" + (" of a set" if len(rows) > 1 else "")
        )
    # The copies are turned here, at angles of their own: a model need not turn them once more.
    with encoder.looking(1) if isinstance(encoder, Encoder) else nullcontext():
        features = encoder.features if isinstance(encoder, Encoder) else encoder
        codes = image_codes(pixels, features, chosen, spectrum, turns, batch_size)
    # A set of one image stays as it is; that this is right is then chance.
    by = torch.zeros(len(pixels), dtype=torch.float64)
    probability = torch.full_like(by, 1 / codes.elements if codes.elements else 2 * NEAR)
    coherence: dict[Hashable, float] = {}
    for name, own in _shown(rows.items(), len(rows), "aligning"):
        if len(own) > 1:
            which = torch.tensor(own)
            found = align_codes(codes.rows(which))
            by[which], probability[which] = found.by, found.probability
            coherence[name] = found.coherence
    return Alignment(chosen, by, probability, coherence)


def pixel_encoder() -> Encoder:
    """The pixels themselves, grey and averaged over cells: nothing was learned, and any set of images will do."""
    side, cells = PIXELS
    grid = nn.Sequential(nn.AdaptiveAvgPool2d(cells), nn.Flatten())
    return Encoder(wrap(grid, channels=1, width=cells**2), Flat(cells**2), ["rot360"], image_size=side).eval()


def find_turning_group(encoder: Encoder | Features, group: Group | str | None) -> Group:
    """The group to align by, shown through a disc so that black corners do not give an image's own turns away."""
    own = encoder.groups if isinstance(encoder, Encoder) else {}
    if group is None:
        turning = [known for known in own.values() if has_spectrum(known)]
        if not turning:
            raise DuetError("say what the images are turned by, such as rot360: this model has no group that turns")
        found = turning[0]
    else:
        found = own.get(group, None) or find_group(group) if isinstance(group, str) else group
    if not has_spectrum(found):
        raise DuetError(f"{found.title or found.name} is no group that turns: images cannot be aligned by it")
    return found.configured(corners="circle")


def _pixels(images: Pictures, encoder: Encoder | Features, batch_size: int) -> Tensor:
    """All images at the model's size: (N,C,H,W)."""
    if not isinstance(encoder, Encoder):
        if not isinstance(images, Tensor):
            raise DuetError("a function does not say which images it takes: give them as a tensor (N, C, H, W)")
        check_shape(images)
        return images
    with quiet():
        parts = list(picture_batches(images, encoder.channels, encoder.image_size, batch_size))
    if len({part.shape[1:] for part in parts}) > 1:
        raise DuetError("images of different sizes, and this model does not say which it takes: resize them")
    return torch.cat(parts) if parts else torch.empty(0, 1, 1, 1)


def image_codes(
    pixels: Tensor,
    features: Features,
    group: Group,
    spectrum: Spectrum | None = None,
    turns: int = TURNS,
    batch_size: int = 256,
) -> Codes:
    """The mean code of some turned copies of every image (N,C,H,W), each turned back; without a spectrum, in theirs."""
    if spectrum is None:
        spectrum = _fit(features, pixels, group, batch_size)
    views = orbit_views(features, pixels, group, turns, seed=1, batch=batch_size, track=_shown)
    turning = spectrum.turning
    p = spectrum.turning_codes(views.z.flatten(0, 1))
    p = p * phases(views.g.flatten().to(p.device), -turning.harmonic)
    p = p.reshape(len(pixels), turns, -1).mean(1)
    # Around the mean of a set images differ by far more than their views do: purities alone weigh the components.
    weight = torch.where(turning.real, turning.purity / 2, turning.purity)
    # What follows is little work, and wants every digit.
    harmonic, weight, real = (part.cpu() for part in (turning.harmonic, weight, turning.real))
    return Codes(p.cpu().to(torch.complex128), harmonic, weight.double(), real, spectrum.elements)


def _fit(features: Features, pixels: Tensor, group: Group, batch_size: int) -> Spectrum:
    """A spectrum of these images; a few of them are taken several times."""
    few = torch.linspace(0, len(pixels) - 1, min(len(pixels), FITTED_IMAGES)).round().long()
    few = few.repeat(-(-LEAST_IMAGES // len(few)))
    views = min(max(FITTED_VIEWS // len(few), 4), 64)
    return spectrum_of(orbit_views(features, pixels[few], group, views, batch=batch_size, track=_shown), group)


def _shown(parts: Iterable[T], total: int, label: str) -> Iterable[T]:
    """A bar where it takes long."""
    return track(((1, part) for part in parts), total, label)
