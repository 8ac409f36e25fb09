"""Views of images that came in any order, put together by image; no matter which came first."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..error import DuetError

FEWEST = 8
"""Images of which a spectrum can be both found and tested."""


class ViewsByImage(NamedTuple):
    """Features z (N, V, D) of N images in the order of their ids (N,), each with V views at g (N, V)."""

    z: Tensor
    g: Tensor
    ids: Tensor


def gather_views(features: Tensor, ids: Tensor, g: Tensor) -> ViewsByImage:
    """(M, D), whole numbers (M,), elements (M,) in any order -> as many views of each image as the fewest has."""
    order = torch.argsort(_shuffled(features, ids, g), stable=True)
    order = order[torch.argsort(ids[order], stable=True)]
    known, counts = torch.unique_consecutive(ids[order], return_counts=True)
    if len(known) < FEWEST:
        raise DuetError(f"a spectrum needs views of at least {FEWEST} images, not {len(known)}")
    fewest = int(counts.min())
    if fewest < 2:
        alone = int((counts == 1).sum())
        raise DuetError(f"{alone} of {len(known)} images have one view only; a spectrum needs two or more of each")
    starts = counts.cumsum(0) - counts
    rows = order[starts.unsqueeze(1) + torch.arange(fewest, device=order.device)]
    return ViewsByImage(features[rows], g[rows], known)


def _shuffled(features: Tensor, ids: Tensor, g: Tensor) -> Tensor:
    """A number a view that depends on the view alone and favours no g: which views are taken is nobody's choice."""
    bits = features.contiguous().view(torch.int32).long()
    bits = (bits * (2 * torch.arange(bits.shape[1], device=bits.device) + 1)).sum(1)
    mixed = bits + ids * 0x9E3779B97F4A7C1 + g.double().contiguous().view(torch.int64) * 0xBF58476D1CE4E5
    for shift, factor in ((31, 0x7FB5D329728EA185), (27, 0x1DADEF4BC2DD44D)):
        mixed = (mixed ^ (mixed >> shift)) * factor
    return mixed ^ (mixed >> 33)
