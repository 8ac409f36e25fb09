"""Fitting a confidence to an encoder: its own images, transformed and read, those of the training beside others."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..data import Images
from ..groups import Group
from ..pixels import as_float
from ..progress import track
from ..representation import Axis
from .confidence import Confidence, Judged, is_right
from .encoder import Encoder

LEAST_IMAGES = 100
"""Held-out images without which nothing is fitted: with so many, a probability of 0.9 is known to 0.03."""
VIEWS = 10
"""Of every image, as long as they are no more than MOST_VIEWS in all; held-out images and those of the training."""
MOST_VIEWS = 10_000
OTHERS = 0.5
"""How often each other group of a model takes part in a view of an axis."""


def fit_confidence(encoder: Encoder, trained: Images, held: Images, seed: int = 0) -> Confidence | None:
    """The confidence of all axes that can be read, from images that were trained on and others that were not.

    None where a reading has no truth: without a table, and with a relative reference.
    """
    axes = calibrated_axes(encoder)
    if not axes:
        return None
    generator = torch.Generator().manual_seed(seed)
    known, unseen, judged = [], [], {}
    for axis in axes:
        group = encoder.groups[axis.name]
        known += [features for _, features in _views(encoder, trained, group, seed, generator)]
        parts = list(_views(encoder, held, group, seed, generator))
        truth, z = torch.cat([g for g, _ in parts]), torch.cat([features for _, features in parts])
        found = encoder.representation(z).recover(axis)
        judged[axis.name] = Judged(found.spread.cpu(), is_right(found.g, truth.to(found.g), group).cpu())
        unseen.append(z)
    return Confidence.fit(torch.cat(known), torch.cat(unseen), judged).to(encoder.device)


def calibrated_axes(encoder: Encoder) -> list[Axis]:
    """The axes whose readings can be right or wrong."""
    return [] if encoder.relative else [axis for axis in encoder.layout.axes if axis.readable]


def _views(
    encoder: Encoder, images: Images, group: Group, seed: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """g (n,) and features (n, D) of up to MOST_VIEWS views, a batch at a time: the group's element always drawn."""
    count = min(len(images), MOST_VIEWS)
    batches = ((len(pixels), pixels) for pixels, _ in images.draw(count, seed))
    for pixels in track(batches, count, f"calibrating {group.name}"):
        for _ in range(min(VIEWS, MOST_VIEWS // count)):
            shown = as_float(pixels.to(encoder.device))
            for other in encoder.groups.values():
                if other.name != group.name:
                    shown = _sometimes(other, shown, generator)
            g = group.sample(len(pixels), generator)
            yield g, encoder.features(group.apply(shown, g, generator))


def _sometimes(group: Group, images: Tensor, generator: torch.Generator) -> Tensor:
    """Some of the images under random elements of a group, the others as they are."""
    chosen = torch.rand(len(images), generator=generator) < OTHERS
    changed = group.apply(images, group.sample(len(images), generator), generator)
    return torch.where(chosen.view(-1, 1, 1, 1).to(images.device), changed, images)
