"""The views of all processes in one tensor, for contrasts that compare statistics of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..error import DuetError
from .precision import at_least_single


def join_views(parts: Sequence[Tensor], gather: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Views of the images of all processes, at least in float32: V x (N, dim) -> (V, world size * N, dim).

    Every process then computes the loss of the joined batch. With `all_gather` its gradient, averaged over the
    processes as DistributedDataParallel does, is that of one process on the joined batch.
    """
    shapes = sorted({tuple(part.shape) for part in parts})
    if len(shapes) > 1 or len(shapes[0]) != 2:
        raise DuetError(f"the views need one shape (N, dim), not {' and '.join(map(str, shapes))}")
    rows = torch.stack([at_least_single(part) for part in parts], dim=1)
    rows = rows if gather is None else gather(rows)
    if len(rows) < 2:
        raise DuetError("statistics of a batch need at least 2 images; take a larger batch")
    return rows.transpose(0, 1)


def smaller_gram(rows: Tensor) -> Tensor:
    """rows^T rows, or rows rows^T if that is smaller: (..., N, dim) -> (..., k, k). Non-zero eigenvalues agree."""
    return rows.mT @ rows if rows.shape[-1] < rows.shape[-2] else rows @ rows.mT
