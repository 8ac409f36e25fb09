"""A batch through the backbone in pieces, and its loss on all features at once: a large batch on a small memory.

The features come first and keep nothing for the way back; the gradient of the whole loss reaches every feature; then
each piece goes through the network once more, alone, and takes its own gradient back (gradient caching).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..error import DuetError
from ..groups import View
from ..methods import Method, Represented, Views
from ..networks.mode import statistics_kept


def represent_in_pieces(method: Method, views: Views, pieces: int) -> Represented:
    """What `method.represent(views)` gives, but that only one piece's graph is ever in memory.

    A piece has every view of its images: B must divide by their number. Where the network knows batch statistics, they
    are those of a piece; what it draws (dropout) is the same on the way there and back.
    """
    images = len(views.images) // views.count
    if images % pieces:
        raise DuetError(f"a batch of {images} images cannot be cut into {pieces} equal pieces")
    found = [
        checkpoint(
            method.represent,
            cut(views, slice(piece, None, pieces)),
            use_reentrant=False,
            context_fn=_contexts(method),
        )
        for piece in range(pieces)
    ]
    return join(found)


def cut(views: Views, rows: slice) -> Views:
    """Every so many rows, so that each piece has all elements and all views of its images; of extra views too."""

    def of_view(view: View) -> View:
        return View(view.images[rows], {name: g[rows] for name, g in view.g.items()})

    extra = {name: of_view(view) for name, view in views.extra.items()}
    return replace(
        views,
        images=views.images[rows],
        g={name: g[rows] for name, g in views.g.items()},
        extra={name: view for name, view in extra.items() if len(view.images)},
    )


def join(found: Sequence[Represented]) -> Represented:
    """The features of all rows in their order, from those of every piece: what `cut` does, undone."""
    values: dict[str, Any] = {}
    for entry in fields(found[0]):
        parts = [getattr(piece, entry.name) for piece in found]
        if all(isinstance(part, dict) for part in parts):
            names = dict.fromkeys(name for part in parts for name in part)
            values[entry.name] = {name: _weave([part[name] for part in parts if name in part]) for name in names}
        else:
            values[entry.name] = _weave(parts)
    return type(found[0])(**values)


def _weave(parts: Sequence[Any]) -> Tensor:
    """Row i of piece k becomes row i * pieces + k; later pieces may have a row less: pieces x (n, ...) -> (N, ...)."""
    if not all(isinstance(part, Tensor) and part.ndim for part in parts):
        raise DuetError("--exact needs features with a row for every view from `represent`, and nothing else")
    places = [torch.arange(len(part)) * len(parts) + number for number, part in enumerate(parts)]
    order = torch.cat(places).argsort().to(parts[0].device)
    return torch.cat(list(parts))[order]


def _contexts(method: nn.Module) -> Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
    return lambda: (nullcontext(), statistics_kept(method))
