"""Networks in another mode for a while, and the running statistics of their batch norms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Every part in evaluation mode, and afterwards as it was."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


@contextmanager
def statistics_kept(module: nn.Module) -> Iterator[None]:
    """Running statistics stay as they are while batches go through the module in training mode."""
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in _counting(module)]
    for norm, _, count in before:
        norm.momentum = 0.0  # the batch takes no part in the average
        norm.num_batches_tracked = None if count is None else count.clone()
    try:
        yield
    finally:
        for norm, momentum, count in before:
            norm.momentum, norm.num_batches_tracked = momentum, count


@torch.no_grad()
def estimate_statistics(module: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace the running statistics of all batch norms by the plain average over these batches of inputs."""
    norms = _counting(module)
    before = [(norm, norm.momentum) for norm in norms]
    training = [(part, part.training) for part in module.modules()]
    module.eval()  # dropout draws nothing
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # every batch counts alike
        norm.train()
    try:
        for batch in batches:
            module(batch)
    finally:
        for norm, momentum in before:
            norm.momentum = momentum
        for part, mode in training:
            part.training = mode


def _counting(module: nn.Module) -> list[_NormBase]:
    """The batch norms that keep running statistics."""
    return [part for part in module.modules() if isinstance(part, _NormBase) and part.track_running_stats]
