"""Jensen-Shannon divergence: how far two distributions over bins lie apart."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .precision import at_least_single, refuse_second_derivatives


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """JS = (KL(p | m) + KL(q | m)) / 2, m = (p + q) / 2, natural log: (B, bins) twice -> (B,), in [0, ln 2]."""
    p, q = at_least_single(p), at_least_single(q)
    return _JensenShannon.apply(p, q)  # type: ignore[no-any-return, no-untyped-call]


class _JensenShannon(torch.autograd.Function):
    """dJS/dp = log(p / m) / 2, which the value has computed already."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor) -> Tensor:
        tiny = torch.finfo(p.dtype).tiny
        middle = ((p + q) / 2).clamp_(min=tiny)
        # At p = 0 the logarithm is infinite; the floor makes it a large number.
        logs = [(side / middle).clamp_(min=tiny).log_() for side in (p, q)]
        ctx.save_for_backward(*logs)
        # Rounding may leave the range by an ulp.
        return torch.addcmul(p * logs[0], q, logs[1]).sum(-1).div_(2).clamp_(0, math.log(2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives("jensen_shannon")
        half = gradients[0].unsqueeze(-1) / 2
        wanted = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=True)
        return tuple(half * log if needed else None for log, needed in wanted)
