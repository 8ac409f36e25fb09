"""What a stranger's model may ask for: as much memory as its file has weights, and weights that are numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..error import DuetError

SPARE = 2**22
"""Numbers that a network may hold beside its weights: masks, tables of positions."""
LARGEST_SIDE, LARGEST_ON_TRUNK = 4096, 2048
"""Pixels along a side of the images that a model may ask for; a trunk looks at one such image when it is opened."""
MAKERS = (torch.empty, torch.zeros, torch.ones)
"""What networks make their weights with."""


class Allowance(TorchFunctionMode):
    """Inside, all tensors that are made hold about as many numbers as those that are to be loaded into them.

    A few letters can ask for a network of any size; nothing of it is made before this is known.
    """

    def __init__(self, tensors: Iterable[Tensor], place: Path, spare: int = SPARE) -> None:
        super().__init__()
        self.place = place
        self.left = 2 * sum(tensor.numel() for tensor in tensors) + spare

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS:
            # On torch's meta device a tensor has a shape and no memory.
            self.left -= func(*args, **{**kwargs, "device": "meta"}).numel()
            if self.left < 0:
                raise DuetError(f"{self.place} asks for more weights than it has")
        return func(*args, **kwargs)


def check_size(size: Any, place: Path, largest: int = LARGEST_SIDE) -> tuple[int, int] | None:
    """(H, W) of the images that a model takes, as its file tells it."""
    if size is None:
        return None
    height, width = (int(side) for side in size)
    if not (0 < height <= largest and 0 < width <= largest):
        raise DuetError(f"{place} asks for images that have not from 1 to {largest} pixels along a side")
    return height, width


def check_numbers(module: nn.Module) -> None:
    """Refuse weights with which every feature would be NaN or lost."""
    weights = dict(module.named_parameters())
    for name, value in (*weights.items(), *module.named_buffers()):
        last = name.rpartition(".")[2]
        if not value.is_floating_point() and not value.is_complex():
            continue
        # A network of somebody's own may hide with an infinity, in what is no weight.
        own = name not in weights and ".body." in name and not last.startswith("running_")
        odd = torch.isnan(value).any() if own else not torch.isfinite(value).all()
        if odd:
            raise DuetError(f"{name} holds values that are no numbers (NaN or infinity)")
        if (last == "running_var" and (value < 0).any()) or (name == "backbone.std" and (value <= 0).any()):
            raise DuetError(f"{name} holds values that are not above 0")
