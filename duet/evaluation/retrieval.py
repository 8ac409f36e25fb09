"""Rank of f(tau_g' x) among transformed copies of x, for the query T_(g -> g') f(tau_g x)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..device import widest
from ..representation import ACTIONS, Action
from ..unit import unit_name
from .context import Context, Sweep
from .element import raw_error
from .evaluation import Evaluation, Measure, register_evaluation
from .result import Array, Result
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = {"hit1": "Hit@1", "hit5": "Hit@5", "mrr": "MRR"}


class Scores(NamedTuple):
    """Of every query (n,): expected hits and reciprocal rank, when what lies equally near comes in random order."""

    hit1: Tensor
    hit5: Tensor
    reciprocal: Tensor
    nearest: Tensor  # (n, K), shares of the answer: one candidate, or several that lie equally near


@register_evaluation
class Retrieval(Evaluation):
    """MRR, Hit@1, Hit@5 and parameter error of every action, with chance beside them."""

    name = "retrieval"
    order = 40
    title = "Retrieval"
    question = "Do moved features find the image that was truly moved?"
    shown = ("hit1_*", "chance_hit1", "mrr_*", "chance_mrr", "parameter_error_*", "chance_parameter_error_*")
    words = {**{action.name: action.title for action in ACTIONS}, **SCORES, "chance": "by chance", "degrees": "degrees"}
    captions = {
        "retrieval": "How often the right copy is found first, among the first five, and its mean reciprocal rank.",
    }

    def measure(self, context: Context) -> Result:
        """Queries from one copy of an image to another."""
        group, subject = context.group, context.subject
        sweep = _copies(context.sweep(group), context.sizes.copies)
        count, images, _ = sweep.z.shape
        generator = context.generator("retrieval")
        queries = context.sizes.queries
        source = torch.randint(count, (images, queries), generator=generator)
        # Never to where it is already: doing nothing is not a skill.
        goal = (source + torch.randint(1, count, (images, queries), generator=generator)).remainder(count)
        source, goal = source.to(sweep.z.device), goal.to(sweep.z.device)
        error = raw_error(sweep.g.unsqueeze(1), sweep.g.unsqueeze(0), group)  # (K, K)
        unit = unit_name(group.unit)
        wide = count > 5  # five of five would always be a hit
        scalars: dict[str, float] = {}
        arrays: dict[str, Array] = {}
        for kind, action in context.actions.items():
            scores = score(distances(sweep, source, goal, action), goal.flatten())
            scalars[f"hit1_{kind}"] = float(scores.hit1.mean())
            if wide:
                scalars[f"hit5_{kind}"] = float(scores.hit5.mean())
            scalars[f"mrr_{kind}"] = float(scores.reciprocal.mean())
            missed = (scores.nearest * error[goal.flatten()]).sum(1)
            scalars[f"parameter_error_{unit}_{kind}"] = float(missed.mean())
            arrays[f"parameter_error_{kind}"] = missed.float().cpu().numpy()
        blind = score(torch.zeros(goal.numel(), count, device=goal.device), goal.flatten())
        scalars["chance_hit1"] = float(blind.hit1.mean())
        if wide:
            scalars["chance_hit5"] = float(blind.hit5.mean())
        scalars["chance_mrr"] = float(blind.reciprocal.mean())
        scalars[f"chance_parameter_error_{unit}"] = float(error[goal.flatten()].mean())
        facts = {"copies": count, "queries": goal.numel(), "relative": subject.relative}
        return Result("retrieval", scalars, arrays, facts)

    def summary(self, result: Result) -> dict[str, str]:
        """The first hit of every action, and by chance."""
        copies = result.provenance["copies"]
        rows = {f"hit1_{a.name}": f"Hit@1 of {copies}, {a.title}" for a in ACTIONS} | {"chance_hit1": "  by chance"}
        return {key: text for key, text in rows.items() if key in result.scalars}

    def measures(self, result: Result) -> list[Measure]:
        """The first hit of the fitted action."""
        value, copies = result.scalars["hit1_fitted"], int(result.provenance["copies"])
        beside = f"chance: {percent(result.scalars['chance_hit1'])}"
        return [Measure(f"Hit@1 of {copies}, fitted", percent(value), value, beside, True, result.provenance["group"])]

    def figures(self, result: Result) -> dict[str, Figure]:
        """Bars of the scores."""
        return {"retrieval": draw_retrieval(result)}

    def sentence(self, result: Result) -> str:
        """How often the right copy is found, beside chance."""
        s, copies = result.scalars, int(result.provenance["copies"])
        text = f"Among {copies} transformed copies of an image, features moved by the fitted action lie nearest to"
        text += f" the right one in {percent(s['hit1_fitted'])} of the cases"
        if "hit1_prescribed" in s:
            text += f", moved by the paper's T_g in {percent(s['hit1_prescribed'])}"
        return f"{text}; chance is {percent(s['chance_hit1'])}."


def distances(sweep: Sweep, source: Tensor, goal: Tensor, action: Action) -> Tensor:
    """|T_(g -> g') f(tau_g x) - f(tau_k x)| for all copies k: source and goal (N,q), places in g -> (N q, K)."""
    images, queries = source.shape
    rows = torch.arange(images, device=source.device).unsqueeze(1).expand_as(source)
    start, end = sweep.g[source].flatten(), sweep.g[goal].flatten()
    query = action.carry(sweep.z[source, rows].flatten(0, 1), start, end)
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
    harmonic = harmonic.to(distance.device, widest(distance))
    nearest = (distance == distance.min(1, keepdim=True).values).to(widest(distance))
    return Scores(
        _within(1, nearer, equal),
        _within(5, nearer, equal),
        (harmonic[nearer + equal] - harmonic[nearer]) / equal,
        nearest / nearest.sum(1, keepdim=True),
    )


def draw_retrieval(result: Result) -> Figure:
    """Hits and mean reciprocal rank of the actions, with chance as a line across each bar's place."""
    from .. import figure as draw

    measures = [(m, t) for m, t in SCORES.items() if f"chance_{m}" in result.scalars]
    kinds = [
        (a, colour) for a, colour in zip(ACTIONS, draw.COLOURS, strict=False) if f"hit1_{a.name}" in result.scalars
    ]
    figure = draw.new_figure(1.2 + 1.3 * len(measures), 2.8)
    axis = figure.subplots()
    width = 0.8 / len(kinds)
    for place, (action, colour) in enumerate(kinds):
        x = np.arange(len(measures)) + (place - (len(kinds) - 1) / 2) * width
        values = [result.scalars[f"{m}_{action.name}"] for m, _ in measures]
        axis.bar(x, values, 0.92 * width, color=colour, label=action.title.replace("T_g", "$T_g$"))
        for at, value in zip(x, values, strict=True):
            axis.text(at, value + 0.015, f"{value:.2f}", ha="center", fontsize=draw.FONT)
    for place, (measure, _) in enumerate(measures):
        chance = result.scalars[f"chance_{measure}"]
        axis.plot(
            [place - 0.45, place + 0.45], [chance, chance], color="black", lw=1.5, label=None if place else "chance"
        )
    axis.set_xticks(range(len(measures)), [text for _, text in measures])
    axis.set_ylim(0, 1.08)
    axis.set_ylabel(f"score among {result.provenance['copies']} copies")
    figure.legend(loc="outside upper center", ncols=3, fontsize=draw.FONT, frameon=False)
    return draw.without_frame(figure)


def _within(k: int, nearer: Tensor, equal: Tensor) -> Tensor:
    """Chance that the right one is among the first k, after those nearer and in random order among its equals."""
    return ((k - nearer).to(widest(nearer)) / equal).clamp(0, 1)


def _copies(sweep: Sweep, count: int) -> Sweep:
    """`count` of the sweep's elements, evenly apart; all of them when there are no more."""
    n = len(sweep.g)
    if n <= count:
        return sweep
    places = sweep.group.domain.spread_out(n, count)
    return Sweep(sweep.group, sweep.g[places], sweep.z[places], sweep.base)
