"""The protocol of SIE and 3DIEBench (Garrido et al., 2023), so that numbers compare with papers that follow it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..device import widest
from ..domain import Circle
from ..groups import Group
from ..model import OrbitViews
from ..representation import FittedAction
from ..representation.moment import standardise
from .context import Context, Orbit
from .evaluation import Claim, Evaluation, register_evaluation
from .result import Result
from .retrieval import answers

SEEDS = 3
WIDTH = 256
EPOCHS = 20
BATCH = 512
RIDGES = np.logspace(-2, 4, 7)


@register_evaluation
class SIE(Evaluation):
    """Relative R^2 of the parameter from two features side by side, and retrieval by a predictor: MRR, H@k, PRE.

    `r2_linear`, `r2_mlp`: R^2 on held-out images of the transformation that leads from one view to another, regressed
    on their two concatenated features, linearly (ridge) and by an MLP of three layers. The target is b - a: as
    (cos, sin) on the circle, as the raw difference on the interval.
    `mrr`, `h1`, `h5`: a predictor moves the features of one view to those of another; rank of the right one among all
    views of that image. The predictor is the fitted action, where SIE has a hypernetwork trained with the encoder.
    `pre`: prediction retrieval error, how far the parameter of the nearest view is from the right one: 1 - <q1, q2>^2
    of the unit quaternions of two rotations, for angles in the plane sin^2 of half their difference; on the interval
    the squared difference, the whole range being 1.
    """

    name = "sie"
    order = 45
    title = "SIE protocol"
    question = "What do the measures of SIE and 3DIEBench say?"
    on_request = True
    shown = ("r2_linear", "r2_mlp", "mrr", "h1", "h5", "pre", "chance_*")
    baselines = ("chance_*",)
    words: ClassVar[Mapping[str, str]] = {
        **{"r2_linear": "relative R², linear", "r2_mlp": "relative R², MLP of three layers"},
        **{"mrr": "MRR", "h1": "H@1", "h5": "H@5", "pre": "PRE", "chance": "by chance"},
        "deviation": "deviation between three seeds",
    }

    def measure(self, context: Context) -> Result:
        """Both regressions over three seeds, and retrieval over all views of every test image."""
        orbit, views = context.orbit(), context.views()
        test, wanted = held_out_pairs(orbit)
        scalars: dict[str, float] = {}
        intervals: dict[str, tuple[float, float]] = {}
        images = orbit.g.shape[1]
        draw = context.bootstrap(images)
        for name, fit in (("linear", linear), ("mlp", mlp)):
            seeds = context.track(list(range(SEEDS)), SEEDS, f"{name} regression of the parameter")
            pairs = [training_pairs(views, orbit.group, seed) for seed in seeds]
            found = [fit(x, y, test, context.seed + seed) for seed, (x, y) in enumerate(pairs)]
            each = [r_squared(wanted, own) for own in found]
            scalars[f"r2_{name}"] = float(np.mean(each))
            scalars[f"r2_{name}_deviation"] = float(np.std(each, ddof=1))
            missed = torch.stack([(wanted - own).square().sum(1) for own in found]).mean(0)
            spread = (wanted - wanted.mean(0)).square().sum(1)
            low, high = draw.ratio(missed.reshape(-1, images).T, spread.reshape(-1, images).T)
            intervals[f"r2_{name}"] = (1 - high, 1 - low)
        for name, values in retrieval(orbit, context.fitted).items():
            scalars[name] = float(values.mean())
            intervals[name] = draw.share(values) if name in ("h1", "h5") else draw.mean(values)
        scalars |= {f"chance_{name}": float(values.mean()) for name, values in retrieval(orbit, None).items()}
        facts = {"copies": len(orbit.g), "seeds": SEEDS, "mlp": [WIDTH, WIDTH], "epochs": EPOCHS}
        return Result("sie", scalars, {}, facts, intervals)

    def claim(self, result: Result) -> Claim | None:
        """The transformation between two views can be read by an MLP."""
        says = "an MLP explains {} of the transformation between two views"
        return Claim("r2_mlp", True, 0.0, what="SIE protocol", says=says, blind="ignoring the images")

    def chance(self, key: str, result: Result) -> float | None:
        """Nothing explained; of ranks, the same if all views were alike."""
        return 0.0 if key in ("r2_linear", "r2_mlp") else result.scalars.get(f"chance_{key}")

    def sentence(self, result: Result) -> str:
        """The two regressions, and the rank."""
        s = result.scalars
        return (
            f"From two features side by side, R² of the transformation between them is {s['r2_linear']:.2f} for a "
            f"linear regression and {s['r2_mlp']:.2f} for an MLP; moved features have a mean reciprocal rank of "
            f"{s['mrr']:.2f}, by chance {s['chance_mrr']:.2f}."
        )


def training_pairs(views: OrbitViews, group: Group, seed: int) -> tuple[Tensor, Tensor]:
    """Two different views of every image side by side, in random order, and the target: (N V, 2D), (N V, 1 or 2)."""
    generator = torch.Generator().manual_seed(seed)
    count, number, _ = views.z.shape
    first = torch.arange(number).expand(count, -1)
    second = (first + torch.randint(1, number, (count, number), generator=generator)).remainder(number)
    rows = torch.arange(count).unsqueeze(1)
    z = torch.cat([views.z[rows, first], views.z[rows, second]], 2).flatten(0, 1)
    return z, target(views.g[rows, first].flatten(), views.g[rows, second].flatten(), group)


def held_out_pairs(orbit: Orbit) -> tuple[Tensor, Tensor]:
    """From every image's start to its other elements: ((n-1) N, 2D) and the target ((n-1) N, 1 or 2)."""
    goals = orbit.goals()
    g, z = orbit.at_start()
    rows = torch.arange(len(g), device=g.device).expand_as(goals)
    reached = orbit.z[goals, rows]
    pairs = torch.cat([z.expand_as(reached), reached], 2).flatten(0, 1)
    return pairs, target(g.expand_as(goals).flatten(), orbit.g[goals, rows].flatten(), orbit.group)


def target(a: Tensor, b: Tensor, group: Group) -> Tensor:
    """The transformation that leads from a to b, as it is regressed, on the CPU: (n,), (n,) -> (n, 1 or 2)."""
    wide = widest(a)
    return group.domain.coordinates(b.to(wide) - a.to(wide)).cpu().double()


def linear(x: Tensor, y: Tensor, test: Tensor, seed: int = 0) -> Tensor:
    """Ridge regression on standardised features, the penalty by leave-one-out error: (N,D), (N,k), (n,D) -> (n,k)."""
    from sklearn.linear_model import RidgeCV

    known, asked = (part.double().cpu().numpy() for part in standardise(x, test))
    return torch.from_numpy(RidgeCV(alphas=RIDGES).fit(known, y.numpy()).predict(asked).reshape(len(asked), -1))


def mlp(x: Tensor, y: Tensor, test: Tensor, seed: int = 0) -> Tensor:
    """Three layers with ReLU, by Adam with a cosine schedule, on standard features: (N,D), (N,k), (n,D) -> (n,k)."""
    known, asked = (part.float() for part in standardise(x, test))
    wanted = y.to(known)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        width = known.shape[1]
        layers = (nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        network = nn.Sequential(*layers, nn.Linear(WIDTH, y.shape[1])).to(known.device)
        steps = EPOCHS * -(-len(known) // BATCH)
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-5)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(EPOCHS):
            for rows in torch.split(torch.randperm(len(known)), BATCH):
                loss = F.mse_loss(network(known[rows]), wanted[rows])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
    with torch.inference_mode():
        return torch.cat([network(part) for part in torch.split(asked, 8192)]).cpu().double().clone()


def r_squared(wanted: Tensor, found: Tensor) -> float:
    """1 - sum |u - v|^2 / sum |u - mean u|^2: (n,k), (n,k) -> number."""
    spread = (wanted - wanted.mean(0)).square().sum()
    return float(1 - (wanted - found).square().sum() / spread) if spread > 0 else math.nan


def retrieval(orbit: Orbit, predictor: FittedAction | None) -> dict[str, Tensor]:
    """MRR, H@1, H@5 and PRE of every image, from its start to every other of its views: (N, n-1) each."""
    goals = orbit.goals().T.contiguous()  # (N, n-1)
    found = answers(orbit, orbit.start.unsqueeze(1).expand_as(goals), goals, predictor, retrieval_error)
    values = {"mrr": found.reciprocal, "h1": found.hit1, "h5": found.hit5, "pre": found.error}
    if len(orbit.g) <= 5:
        del values["h5"]  # a hit always
    return values


def retrieval_error(a: Tensor, b: Tensor, group: Group) -> Tensor:
    """sin^2(pi d) on the circle, which is 1 - <q1, q2>^2 for rotations in the plane by d turns; d^2 on the interval."""
    apart = group.domain.distance(a, b)
    return (math.pi * apart).sin().square() if isinstance(group.domain, Circle) else apart.square()
