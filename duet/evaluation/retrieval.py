"""Rank of f(tau_g' x) among transformed copies of x, for the query T_(g -> g') f(tau_g x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..representation import act, shift
from .context import Context, Sweep
from .element import raw_error, unit_name
from .result import Array, Result

Move = Callable[[Tensor, Tensor, Tensor], Tensor]
"""T from g to g': features at g (n,D), g (n,), g' (n,) -> (n,D)."""


class Scores(NamedTuple):
    """Of every query (n,): expected hits and reciprocal rank, when what lies equally near comes in random order."""

    hit1: Tensor
    hit5: Tensor
    reciprocal: Tensor
    nearest: Tensor  # (n, K), shares of the answer: one candidate, or several that lie equally near


def retrieve(context: Context) -> Result:
    """MRR, Hit@1, Hit@5 and parameter error of every action, with chance beside them."""
    group, subject = context.group, context.subject
    sweep = _copies(context.sweep(group), context.sizes.copies)
    count, images, _ = sweep.z.shape
    generator = context.generator("retrieval")
    queries = context.sizes.queries
    source = torch.randint(count, (images, queries), generator=generator)
    # Never to where it is already: doing nothing is not a skill.
    goal = (source + torch.randint(1, count, (images, queries), generator=generator)).remainder(count)
    error = raw_error(sweep.g.unsqueeze(1), sweep.g.unsqueeze(0), group)  # (K, K)
    unit = unit_name(group.unit)
    wide = count > 5  # five of five would always be a hit
    scalars: dict[str, float] = {}
    arrays: dict[str, Array] = {}
    for kind, move in _moves(context).items():
        scores = score(distances(sweep, source, goal, move), goal.flatten())
        scalars[f"hit1_{kind}"] = float(scores.hit1.mean())
        if wide:
            scalars[f"hit5_{kind}"] = float(scores.hit5.mean())
        scalars[f"mrr_{kind}"] = float(scores.reciprocal.mean())
        missed = (scores.nearest * error[goal.flatten()]).sum(1)
        scalars[f"parameter_error_{unit}_{kind}"] = float(missed.mean())
        arrays[f"parameter_error_{kind}"] = missed.float().numpy()
    blind = score(torch.zeros(len(goal.flatten()), count), goal.flatten())
    scalars["chance_hit1"] = float(blind.hit1.mean())
    if wide:
        scalars["chance_hit5"] = float(blind.hit5.mean())
    scalars["chance_mrr"] = float(blind.reciprocal.mean())
    scalars[f"chance_parameter_error_{unit}"] = float(error[goal.flatten()].mean())
    provenance = {**context.provenance(), "unit": group.unit, "copies": count, "queries": goal.numel()}
    return Result("retrieval", scalars, arrays, {**provenance, "relative": subject.relative})


def distances(sweep: Sweep, source: Tensor, goal: Tensor, move: Move) -> Tensor:
    """|T_(g -> g') f(tau_g x) - f(tau_k x)| for all copies k: source and goal (N,q), places in g -> (N q, K)."""
    images, queries = source.shape
    rows = torch.arange(images).unsqueeze(1).expand_as(source)
    query = move(sweep.z[source, rows].flatten(0, 1), sweep.g[source].flatten(), sweep.g[goal].flatten())
    # Differences, not products: equal copies must lie at equal distances.
    found = torch.cdist(
        query.reshape(images, queries, -1),
        sweep.z.transpose(0, 1).contiguous(),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    return found.flatten(0, 1)


def score(distance: Tensor, right: Tensor) -> Scores:
    """Hits and reciprocal ranks of the right candidates, so that equal distances score as chance does: (n,K), (n,)."""
    own = distance.gather(1, right.unsqueeze(1))
    nearer, equal = (distance < own).sum(1), (distance == own).sum(1)  # equal counts the right one too
    harmonic = torch.cat([torch.zeros(1), 1 / torch.arange(1, distance.shape[1] + 1)]).double().cumsum(0)
    nearest = (distance == distance.min(1, keepdim=True).values).double()
    return Scores(
        _within(1, nearer, equal),
        _within(5, nearer, equal),
        (harmonic[nearer + equal] - harmonic[nearer]) / equal,
        nearest / nearest.sum(1, keepdim=True),
    )


def _within(k: int, nearer: Tensor, equal: Tensor) -> Tensor:
    """Chance that the right one is among the first k, after those nearer and in random order among its equals."""
    return ((k - nearer).double() / equal).clamp(0, 1)


def _moves(context: Context) -> dict[str, Move]:
    subject, action = context.subject, context.action
    axis, layout = subject.axis(context.group), subject.layout
    moves: dict[str, Move] = {"fitted": lambda z, a, b: action(z, b - a)}
    if axis is None:
        return moves
    if subject.relative:
        return {"prescribed": lambda z, a, b: shift(z, layout, axis, b - a)} | moves
    return {"prescribed": lambda z, a, b: act(z, layout, axis, b)} | moves


def _copies(sweep: Sweep, count: int) -> Sweep:
    """`count` of the sweep's elements, evenly apart; all of them when there are no more."""
    n = len(sweep.g)
    if n <= count:
        return sweep
    places = torch.arange(count) * n // count if sweep.group.cyclic else torch.linspace(0, n - 1, count).round().long()
    return Sweep(sweep.group, sweep.g[places], sweep.z[places], sweep.base)
