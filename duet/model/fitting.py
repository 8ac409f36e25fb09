"""Fitting an action to an encoder: T learned from pairs of transformed images, without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..device import widest
from ..groups import Group
from ..pixels import as_float
from ..representation import FittedAction

Features = Callable[[Tensor], Tensor]
UNTOUCHED = 0.25
"""Share of the pairs that start from the untouched image: sharper than any interpolated one, and what people act on."""


def fit_action(
    features: Features, images: Tensor, group: Group, pairs: int = 12_000, seed: int = 0, batch: int = 512
) -> FittedAction:
    """Fit T_by with f(tau_b x) = T_(b - a) f(tau_a x) on random pairs of images (N,C,H,W) transformed by a and b."""
    parts = list(transformed_pairs(features, images, group, pairs, seed, batch))
    z_from, z_to, by = (torch.cat(column) for column in zip(*parts, strict=True))
    action = FittedAction.fit(z_from, z_to, by, group.domain, elements=group.elements)
    # Fitted in double precision; where the features live may have none.
    return action if widest(z_from) == torch.float64 else action.float().to(z_from.device)


def transformed_pairs(
    features: Features, images: Tensor, group: Group, pairs: int, seed: int, batch: int = 512
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Features of random images under two random elements each, and by = b - a: (n,D), (n,D), (n,)."""
    generator = torch.Generator().manual_seed(seed)
    # Every image as often as any other, give or take one.
    order = torch.cat([torch.randperm(len(images), generator=generator) for _ in range(-(-pairs // len(images)))])
    for rows in torch.split(order[:pairs], batch):
        chosen = as_float(images[rows.to(images.device)])
        a, b = group.sample(len(rows), generator), group.sample(len(rows), generator)
        a = torch.where(torch.rand(len(rows), generator=generator) < UNTOUCHED, group.identity, a)
        # No nuisance: two crops of one image at different places would not be images of each other.
        yield features(group.apply(chosen, a)), features(group.apply(chosen, b)), (b - a).to(images.device)
