"""Which test images lie nearest to the picture, as they are or each under a random element of a group."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..pixels import as_float
from .opening import Explorer
from .picture import Picture

NEIGHBOURS = 7
Space = Literal["content", "full"]


class Bank(NamedTuple):
    """Images among which neighbours are sought (N,C,H,W), their features (N,D), and the g of each (N,) if it varies."""

    images: Tensor
    z: Tensor
    g: Tensor | None


class Neighbour(NamedTuple):
    """A test image that lies near: its pixels (C,H,W), its label, the parameter it was given, and the cosine."""

    image: Tensor
    label: str
    parameter: float | None
    cosine: float


def neighbours(explorer: Explorer, picture: Picture, space: Space, turned: str = "") -> list[Neighbour]:
    """The test images nearest to a picture by cosine; with `turned`, each under a random element of that group."""
    bank = _bank(explorer, turned)
    view = explorer.encoder.layout.content if space == "content" else torch.nn.Identity()
    cosine = functional.cosine_similarity(view(bank.z), view(picture.z))
    if picture.place is not None:
        cosine[picture.place] = -torch.inf  # itself
    best = cosine.topk(min(NEIGHBOURS, len(cosine) - (picture.place is not None))).indices.tolist()
    return [
        Neighbour(
            bank.images[i],
            explorer.labels[i] if explorer.labels else "",
            None if bank.g is None else float(explorer.group(turned).parameter(float(bank.g[i]))),
            float(cosine[i]),
        )
        for i in best
    ]


def _bank(explorer: Explorer, turned: str) -> Bank:
    """The test images, as they are or each under an element of its own, with their features; computed once."""
    if turned not in explorer._banks:
        images, g = as_float(explorer.images.to(explorer.encoder.device)), None
        if turned:
            group = explorer.group(turned)
            g = group.sample(len(images), torch.Generator().manual_seed(0))
            images = group.apply(images, g)
        explorer._banks[turned] = Bank(images, explorer.encoder.features(images), g)
    return explorer._banks[turned]
