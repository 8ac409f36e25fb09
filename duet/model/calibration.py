"""Fitting a confidence to an encoder: images it was trained on and others, as they are and transformed, and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import Images
from ..groups import Group, Rotation
from ..pixels import as_float
from ..progress import track
from ..representation import Axis
from .confidence import Confidence, Judged, doubt, is_right, tolerance
from .encoder import Encoder

LEAST_IMAGES = 100
"""Held-out images without which nothing is fitted: with so many, a probability of 0.9 is known to 0.03."""
VIEWS, MOST_VIEWS = 25, 10_000
"""Transformed views of every image, and of all of them at most; a model that looks at K turned copies takes 1/K as
many: a K-th of a turn more shows it nothing new."""
OTHERS = 0.5
"""How often each other group of a model takes part in a view of an axis."""


class Views(NamedTuple):
    """Features (n, D) of views, the element g (n,) that was drawn for each, and the number (n,) of its image."""

    z: Tensor
    g: Tensor
    image: Tensor


def fit_confidence(encoder: Encoder, trained: Images, held: Images, seed: int = 0) -> Confidence | None:
    """The confidence of all axes that can be read, from images that were trained on and others that were not.

    None where a reading has no truth: without a table, and with a relative reference.
    """
    axes = [] if encoder.relative else [axis for axis in encoder.layout.axes if axis.readable]
    if not axes:
        return None
    generator = torch.Generator().manual_seed(seed)
    # An image that was never resampled is sharper than any view, and what people have: it must count as known.
    seen, unseen, judged = [_untouched(encoder, trained, seed)], [_untouched(encoder, held, seed)], {}
    for axis in axes:
        if _turns_exactly(encoder, axis):
            seen.append(_rolled(encoder, axis, seen[0], generator).z)
            views = _rolled(encoder, axis, unseen[0], generator)
        else:
            seen.append(_joined(_views(encoder, trained, axis, seed, generator)).z)
            views = _joined(_views(encoder, held, axis, seed, generator))
        unseen.append(views.z)
        judged[axis.name] = _judge(encoder, axis, views)
    seen[0] = seen[0].repeat(max(1, len(seen[1]) // (2 * len(seen[0]))), 1)  # or they would not count among the views
    return Confidence.fit(torch.cat(seen), unseen, judged).to(encoder.device)


def _untouched(encoder: Encoder, images: Images, seed: int) -> Tensor:
    """Features of images as they are: (n, D)."""
    return torch.cat([encoder.features(pixels) for pixels, _ in images.draw(MOST_VIEWS // encoder.turns, seed)])


def _turns_exactly(encoder: Encoder, axis: Axis) -> bool:
    """Whether every element of the axis' group is one of the turned copies that the model looks at: then the features
    of a view are those of the image, rolled."""
    group = encoder.groups[axis.name]
    alone = len(encoder.groups) == 1 and isinstance(group, Rotation)
    return alone and group.elements is not None and encoder.turns == len(group.elements)


def _rolled(encoder: Encoder, axis: Axis, z: Tensor, generator: torch.Generator) -> Views:
    """A view of every image, by its features (n, D) as it is: z(tau_(k/K) x) = T_(k/K) z(x), no pass needed."""
    group, turns = encoder.groups[axis.name], encoder.turns
    g = group.sample(len(z), generator)
    quarter = torch.remainder(((g - group.identity) * turns).round(), turns).long().to(z.device)
    rolled = z.clone()
    for k in range(1, turns):
        rows = quarter == k
        rolled[rows] = encoder.layout.roll(z[rows], axis, k * (axis.bins // turns))
    return Views(rolled, g, torch.arange(len(z)))


def _joined(parts: Iterable[Views]) -> Views:
    return Views(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _judge(encoder: Encoder, axis: Axis, views: Views) -> Judged:
    """What came of reading an axis of views."""
    group, representation = encoder.groups[axis.name], encoder.representation(views.z)
    found, within = representation.recover(axis).g, tolerance(group)
    wavering = doubt(representation.marginal(axis), found, axis.target.domain, within)
    right, off = is_right(found, views.g.to(found), group), axis.target.domain.distance(found, views.g.to(found))
    return Judged(wavering.cpu(), right.cpu(), views.image, within, off.cpu())


def _views(encoder: Encoder, images: Images, axis: Axis, seed: int, generator: torch.Generator) -> Iterator[Views]:
    """Images under random elements of the axis' group, and half of them under each other group too."""
    group, most = encoder.groups[axis.name], MOST_VIEWS // encoder.turns
    count, first = min(len(images), most), 0
    others = [other for other in encoder.groups.values() if other.name != group.name]
    batches = ((len(pixels), pixels) for pixels, _ in images.draw(count, seed))
    for pixels in track(batches, count, f"calibrating {group.name}"):
        number = torch.arange(first, first + len(pixels))
        first += len(pixels)
        for _ in range(max(1, min(VIEWS // encoder.turns, most // count))):
            shown = as_float(pixels.to(encoder.device))
            for other in others:
                shown = _sometimes(other, shown, generator)
            g = group.sample(len(pixels), generator)
            yield Views(encoder.features(group.apply(shown, g, generator)), g, number)


def _sometimes(group: Group, images: Tensor, generator: torch.Generator) -> Tensor:
    """Some of the images under random elements of a group, the others as they are."""
    chosen = torch.rand(len(images), generator=generator) < OTHERS
    changed = group.apply(images, group.sample(len(images), generator), generator)
    return torch.where(chosen.view(-1, 1, 1, 1).to(images.device), changed, images)
