"""What gradients by hand share: the precision they take, and what they refuse."""

from __future__ import annotations

import torch
from torch import Tensor


def refuse_second_derivatives(name: str) -> None:
    """What a gradient by hand has saved counts as constant: a second derivative would be wrong, without a word."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(f"{name} can be differentiated once; leave out create_graph")


def at_least_single(tensor: Tensor) -> Tensor:
    """float64 stays float64, half precision becomes float32."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
