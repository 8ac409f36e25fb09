"""The two objectives: contrast of contents (NT-Xent) and match of marginals (Jensen-Shannon)."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """JS = (KL(p | m) + KL(q | m)) / 2, m = (p + q) / 2, natural log: (B, bins) twice -> (B,), in [0, ln 2]."""
    p, q = _at_least_single(p), _at_least_single(q)
    return _JensenShannon.apply(p, q)  # type: ignore[no-any-return, no-untyped-call]


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
        raise ValueError(f"the two views need one shape (N, dim), not {tuple(first.shape)} and {tuple(second.shape)}")
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1 anchor, not {chunk}")
    with torch.autocast(first.device.type, enabled=False):
        anchors = F.normalize(torch.cat([_at_least_single(first), _at_least_single(second)]), dim=-1)
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
        _refuse_second_derivatives("jensen_shannon")
        half = gradients[0].unsqueeze(-1) / 2
        wanted = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=True)
        return tuple(half * log if needed else None for log, needed in wanted)


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
        _refuse_second_derivatives("nt_xent")
        anchors, weights, totals = ctx.saved_tensors
        inverse = totals.reciprocal()
        pull = (weights * (inverse + inverse.unsqueeze(1))) @ anchors
        pull.sub_(anchors.roll(len(anchors) // 2, 0), alpha=2)
        return pull.mul_(gradients[0] * (ctx.scale / len(anchors))), None


# Cosines differ by 2 at most: from this temperature on, exp((s - 1) / t) is at least exp(-40), far from underflow.
_WARM = 0.05


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


def _refuse_second_derivatives(name: str) -> None:
    """What a gradient by hand has saved counts as constant: a second derivative would be wrong, without a word."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(f"{name} can be differentiated once; leave out create_graph")


def _at_least_single(tensor: Tensor) -> Tensor:
    """float64 stays float64, half precision becomes float32."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
