"""Half precision on disk: matrices as float16 where that keeps them, read back as float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

TOLERANCE = 2**-10
"""The largest error of a row or column of a matrix in float16, relative to its length."""
FLOOR = 1e-3
"""Of the longest row's length: a shorter row may err by as much as one so long."""


def in_half(tensors: Mapping[str, Tensor], exact: Iterable[str] = ()) -> dict[str, Tensor]:
    """Tensors for disk, by name: matrices and filters in float16 where they survive it, other floats in float32.

    Vectors stay in float32: they are small, and variances range widely. So do the names in `exact`.
    """
    kept = set(exact)
    return {
        key: value.half() if key not in kept and survives(value) else value.float() if _floats(value) else value
        for key, value in tensors.items()
    }


def in_single(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, those of half precision in float32."""
    return {key: value.float() if value.dtype == torch.float16 else value for key, value in tensors.items()}


def survives(tensor: Tensor) -> bool:
    """Whether float16 keeps every row and column of a matrix within the tolerance; a filter is a row for itself."""
    if not _floats(tensor) or tensor.ndim < 2 or not tensor.numel():
        return False
    wide = tensor.double()
    error = wide - tensor.half().double()
    for dim in (0, tensor.ndim - 1):
        others = [own for own in range(tensor.ndim) if own != dim]
        length, lost = (torch.linalg.vector_norm(part, dim=others) for part in (wide, error))
        # Written so that infinity and NaN fail too.
        if not bool((lost <= TOLERANCE * length.clamp(min=FLOOR * float(length.max()))).all()):
            return False
    return True


def _floats(tensor: Tensor) -> bool:
    return tensor.is_floating_point()
