"""Rows of all processes, with a gradient."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor


def all_gather(tensor: Tensor) -> Tensor:
    """The rows of all ranks in rank order, differentiable: (N, ...) -> (world size * N, ...).

    Backward sums what every rank asks of these rows. If each rank differentiates its local mean, the rows of a rank so
    receive world size times their gradient in the joined batch's mean; DistributedDataParallel's average over ranks
    divides by the world size, and the parameters get exactly the gradient of one process on the joined batch.
    Without an initialised process group it is the identity.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return tensor
    return _AllGather.apply(tensor)  # type: ignore[no-any-return, no-untyped-call]


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        ctx.rows = tensor.shape[0]
        parts = [torch.empty_like(tensor) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        torch.distributed.all_reduce(total)
        return total.narrow(0, torch.distributed.get_rank() * ctx.rows, ctx.rows)
