"""How many pixels of an image become one place: the stride of a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .mode import in_evaluation_mode

Hook = Callable[[nn.Module, tuple[Any, ...]], None]


def stride_of(network: nn.Module, images: Tensor) -> int:
    """The product of the strides that images (B,C,H,W) meet one after another, found by sending them through.

    Layers side by side, such as a block's shortcut, see maps of one size and count once. Of maps that are a single
    place, which no layer can shrink, one stride counts: for small images it is the least that the stride can be.
    """
    met: dict[tuple[int, ...], int] = {}

    def note(stride: int) -> Hook:
        def hook(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            size = tuple(inputs[0].shape[-2:])
            met[size] = max(met.get(size, 1), stride)

        return hook

    hooks = [
        part.register_forward_pre_hook(note(stride)) for part in network.modules() if (stride := _stride(part)) > 1
    ]
    try:
        with torch.no_grad(), torch.random.fork_rng(), in_evaluation_mode(network):
            network(images)
    finally:
        for hook in hooks:
            hook.remove()
    product = 1
    for stride in met.values():
        product *= stride
    return product


def _stride(layer: nn.Module) -> int:
    if not isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d):
        return 1
    return max(layer.stride) if isinstance(layer.stride, tuple) else int(layer.stride)
