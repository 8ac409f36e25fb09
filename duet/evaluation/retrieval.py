"""Rank of f(tau_g' x) among transformed copies of x, for the query T_(g -> g') f(tau_g x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..device import widest
from ..groups import Group
from ..representation import ACTIONS, Action, FittedAction, Prescribed, Spectrum
from ..unit import unit_name
from .context import Context, Orbit
from .element import raw_error
from .evaluation import Claim, Evaluation, register_evaluation
from .result import Array, Result
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ElementError = Callable[[Tensor, Tensor, Group], Tensor]
"""How far one element is from another."""
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
    baselines = ("chance_*",)
    words = {
        **{action.name: action.title for action in ACTIONS},
        **SCORES,
        **{"chance": "by chance", "degrees": "degrees", "other_classes": "fitted on other classes"},
    }
    captions = {
        "retrieval": "How often the right copy is found first, among the first five, and its mean reciprocal rank.",
    }

    def measure(self, context: Context) -> Result:
        """Queries from one copy of an image to another; the copies stand at even steps from a random element."""
        orbit = _copies(context.orbit(), context.sizes.copies)
        count, images, _ = orbit.z.shape
        source, goal = draw_queries(count, images, context.sizes.queries, context.generator("retrieval"))
        source, goal = source.to(orbit.z.device), goal.to(orbit.z.device)
        unit = unit_name(context.group.unit)
        draw = context.bootstrap(images)
        scalars: dict[str, float] = {}
        intervals: dict[str, tuple[float, float]] = {}
        arrays: dict[str, Array] = {}
        for kind, action in context.actions.items():
            found = answers(orbit, source, goal, action)
            for name, values in found.named(count, unit).items():
                scalars[f"{name}_{kind}"] = float(values.mean())
                sure = draw.share if name.startswith("hit") else draw.mean
                intervals[f"{name}_{kind}"] = sure(values)
            arrays[f"parameter_error_{kind}"] = found.error.flatten().float().numpy()
        blind = answers(orbit, source, goal, None)
        scalars |= {f"chance_{name}": float(values.mean()) for name, values in blind.named(count, unit).items()}
        scalars |= _foreign_hits(context, orbit, source, goal)
        facts = {"copies": count, "queries": goal.numel(), "relative": context.subject.relative}
        return Result("retrieval", scalars, arrays, facts, intervals)

    def summary(self, result: Result) -> dict[str, str]:
        """The first hit of every action, and by chance."""
        copies = result.provenance["copies"]
        rows = {f"hit1_{a.name}": f"Hit@1 of {copies}, {a.title}" for a in ACTIONS}
        rows |= {
            "hit1_fitted_other_classes": "  the fitted action, fitted on other classes",
            "chance_hit1": "  by chance",
        }
        return {key: text for key, text in rows.items() if key in result.scalars}

    def claim(self, result: Result) -> Claim | None:
        """The fitted action finds the right copy."""
        says = f"the right one of {int(result.provenance['copies'])} copies is found first in {{}} of the cases"
        return Claim(f"hit1_{FittedAction.name}", True, result.scalars["chance_hit1"], what="finding", says=says)

    def chance(self, key: str, result: Result) -> float | None:
        """The same score if all copies were alike."""
        names = [name for name in result.scalars if name.startswith("chance_")]
        found = next((name for name in names if key.startswith(name.removeprefix("chance_"))), None)
        return None if found is None else result.scalars[found]

    def measured(self, key: str) -> str:
        """The same for every action."""
        own = key.removeprefix("chance_")
        for action in ACTIONS:
            own = own.removesuffix("_other_classes").removesuffix(f"_{action.name}")
        return own

    def text(self, key: str, value: float) -> str:
        """Hits in percent."""
        return percent(value) if "hit" in key else super().text(key, value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """Bars of the scores."""
        return {"retrieval": draw_retrieval(result)}

    def sentence(self, result: Result) -> str:
        """How often the right copy is found, beside chance."""
        s, copies = result.scalars, int(result.provenance["copies"])
        text = f"Among {copies} transformed copies of an image, features moved by the fitted action lie nearest to"
        text += f" the right one in {percent(s['hit1_fitted'])} of the cases"
        for action in (Spectrum, Prescribed):
            if f"hit1_{action.name}" in s:
                text += f", moved by {action.title} in {percent(s[f'hit1_{action.name}'])}"
        return f"{text}; chance is {percent(s['chance_hit1'])}."


class Answers(NamedTuple):
    """Of every query (N,q), on the CPU: hits, reciprocal rank, and how far the nearest copy is from the right one."""

    hit1: Tensor
    hit5: Tensor
    reciprocal: Tensor
    error: Tensor

    def named(self, copies: int, unit: str) -> dict[str, Tensor]:
        """By the names of their scalars."""
        found = {"hit1": self.hit1, "hit5": self.hit5, "mrr": self.reciprocal, f"parameter_error_{unit}": self.error}
        return found if copies > 5 else {key: value for key, value in found.items() if key != "hit5"}  # a hit always


def draw_queries(copies: int, images: int, queries: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Places of the copies to start from and to go to, never the same: doing nothing is not a skill: (N,q), (N,q)."""
    source = torch.randint(copies, (images, queries), generator=generator)
    goal = (source + torch.randint(1, copies, (images, queries), generator=generator)).remainder(copies)
    return source, goal


def answers(
    orbit: Orbit, source: Tensor, goal: Tensor, action: Action | None, error: ElementError = raw_error
) -> Answers:
    """What an action finds; without one, what is found by somebody for whom all copies are alike."""
    count = len(orbit.g)
    if action is None:
        distance = torch.zeros(goal.numel(), count, device=goal.device)
    else:
        distance = distances(orbit, source, goal, action)
    found = score(distance, goal.flatten())
    rows = torch.arange(len(goal), device=goal.device).unsqueeze(1).expand_as(goal).flatten()
    right = orbit.g[goal.flatten(), rows]
    off = error(right.unsqueeze(1), orbit.g[:, rows].T, orbit.group)  # (N q, K)
    missed = (found.nearest * off).sum(1)
    return Answers(*(v.reshape(goal.shape).cpu().double() for v in (found.hit1, found.hit5, found.reciprocal, missed)))


def distances(orbit: Orbit, source: Tensor, goal: Tensor, action: Action) -> Tensor:
    """|T_(g -> g') f(tau_g x) - f(tau_k x)| for all copies k: source and goal (N,q), places in g -> (N q, K)."""
    images, queries = source.shape
    rows = torch.arange(images, device=source.device).unsqueeze(1).expand_as(source)
    start, end = orbit.g[source, rows].flatten(), orbit.g[goal, rows].flatten()
    query = action.carry(orbit.z[source, rows].flatten(0, 1), start, end)
    # Differences, not products: equal copies must lie at equal distances.
    found = torch.cdist(
        query.reshape(images, queries, -1),
        orbit.z.transpose(0, 1).contiguous(),
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
    figure.legend(loc="outside upper center", ncols=2, fontsize=draw.FONT, frameon=False)
    return draw.without_frame(figure)


def _within(k: int, nearer: Tensor, equal: Tensor) -> Tensor:
    """Chance that the right one is among the first k, after those nearer and in random order among its equals."""
    return ((k - nearer).to(widest(nearer)) / equal).clamp(0, 1)


def _copies(orbit: Orbit, count: int) -> Orbit:
    """`count` of the orbit's elements, evenly apart; all of them when there are no more."""
    n = len(orbit.g)
    if n <= count:
        return orbit
    places = orbit.group.domain.spread_out(n, count).to(orbit.z.device)
    return Orbit(orbit.group, orbit.g[places], orbit.z[places], orbit.start.remainder(count))


def _foreign_hits(context: Context, orbit: Orbit, source: Tensor, goal: Tensor) -> dict[str, float]:
    """The first hits on images of classes that an action was not fitted on."""
    hits: dict[str, list[Tensor]] = {}
    for images, actions in context.foreign_actions:
        own = images.to(orbit.z.device)
        for kind, action in actions.items():
            if kind != Prescribed.name:  # it is not fitted
                hits.setdefault(kind, []).append(answers(orbit.of(own), source[own], goal[own], action).hit1)
    return {f"hit1_{kind}_other_classes": float(torch.cat(found).mean()) for kind, found in hits.items()}
