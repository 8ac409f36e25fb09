"""NT-Xent: every view must be told from all others, but for the other view of its own image."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..device import full_precision
from ..error import DuetError
from .contrast import register_objective
from .precision import at_least_single, refuse_second_derivatives


@register_objective
def nt_xent(
    first: Tensor,
    second: Tensor,
    temperature: float = 0.1,
    gather: Callable[[Tensor], Tensor] | None = None,
    chunk: int | None = None,
) -> Tensor:
    """mean over the 2N anchors i of -log(exp(s_ip / t) / sum_(k != i) exp(s_ik / t)), s cosine, p the other view of i.

    `first` and `second` are the two views, (N, dim) each. `gather` maps local rows to the rows of all ranks, equal
    blocks in rank order (see `all_gather`): the anchors stay local, the candidates are everyone's, and the mean of the
    ranks' values is the value of the joined batch. `chunk` anchors at a time are compared with the candidates, forward
    and backward, so memory is O(N chunk) instead of O(N^2).
    """
    if first.shape != second.shape or first.ndim != 2:
        raise DuetError(f"the two views need one shape (N, dim), not {tuple(first.shape)} and {tuple(second.shape)}")
    if temperature <= 0:
        raise DuetError(f"temperature must be positive, not {temperature}")
    if chunk is not None and chunk < 1:
        raise DuetError(f"chunk must be at least 1 anchor, not {chunk}")
    with full_precision(first):
        anchors = F.normalize(torch.cat([at_least_single(first), at_least_single(second)]), dim=-1)
        chunk = chunk or len(anchors)
        if chunk >= len(anchors) and gather is None and temperature >= _WARM:
            return _Contrast.apply(anchors, temperature)  # type: ignore[no-any-return, no-untyped-call]
        candidates = anchors if gather is None else gather(anchors)
        own = torch.arange(len(anchors), device=anchors.device)
        positive = own.roll(len(first))
        if gather is not None:
            start = _block_of(anchors, candidates) * len(anchors)
            own, positive = own + start, positive + start
        anchors = anchors / temperature
        if chunk >= len(anchors):
            return _cross_entropy(anchors, candidates, own, positive) / len(anchors)
        pieces = zip(*(torch.split(rows, chunk) for rows in (anchors, own, positive)), strict=True)
        losses = [
            checkpoint(_cross_entropy, a, candidates, o, p, use_reentrant=False, preserve_rng_state=False)
            for a, o, p in pieces
        ]
        return torch.stack(losses).sum() / len(anchors)


class _Contrast(torch.autograd.Function):
    """The mean over anchors when the candidates are the anchors themselves: (2N, dim) of unit rows -> ().

    With one shift for all rows E = exp((S - 1) / t) is symmetric, and so is the gradient's weight of a pair,
    E_ij (1 / E_i. + 1 / E_j.): backward takes one product of matrices where two are needed otherwise.
    """

    @staticmethod
    def forward(ctx: Any, anchors: Tensor, temperature: float) -> Tensor:
        scale = 1 / temperature
        weights = torch.addmm(anchors.new_tensor(-scale), anchors, anchors.T, alpha=scale)
        positives = weights.diagonal(len(anchors) // 2).mean()
        totals = weights.exp_().fill_diagonal_(0).sum(1)
        ctx.save_for_backward(anchors, weights, totals)
        ctx.scale = scale
        return totals.log().mean() - positives

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivatives("nt_xent")
        anchors, weights, totals = ctx.saved_tensors
        inverse = totals.reciprocal()
        pull = (weights * (inverse + inverse.unsqueeze(1))) @ anchors
        pull.sub_(anchors.roll(len(anchors) // 2, 0), alpha=2)
        return pull.mul_(gradients[0] * (ctx.scale / len(anchors))), None


# Cosines differ by 2 at most: from this temperature on, exp((s - 1) / t) is at least exp(-40), far from underflow.
_WARM = 0.05


def _cross_entropy(anchors: Tensor, candidates: Tensor, own: Tensor, positive: Tensor) -> Tensor:
    """Sum over anchors; (n, dim), (M, dim), and for each anchor the candidates that are itself and its other view."""
    similarity = anchors @ candidates.T
    similarity = similarity.scatter_(1, own.unsqueeze(1), -math.inf)  # in place: (n, M) is all the memory there is
    return F.cross_entropy(similarity, positive, reduction="sum")


def _block_of(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Which of the ranks' blocks is ours: the one that equals our rows. No process group is asked, no host waits."""
    blocks = candidates.detach().reshape(-1, *anchors.shape)
    distances: Tensor = (blocks - anchors.detach()).abs()
    return distances.amax((1, 2)).argmin()
