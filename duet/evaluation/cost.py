"""What a method costs: measured seconds and bytes as a Result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..experiment import Experiment, build_method, build_optimizer, build_stack
from .context import Context
from .measuring import medians, peak_bytes, times
from .result import Result
from .subject import Inapplicable

REPEATS = 10
MOST = 256  # images a step, so that a large batch does not make it a long wait


def measure_cost(context: Context) -> Result:
    """Seconds and bytes of a training step of every method, with the subject's backbone, group and batch."""
    experiment = context.subject.experiment
    if experiment is None:
        raise Inapplicable("only a model that was trained here says how it is trained")
    batch = min(experiment.batch_size, MOST, len(context.train))
    images = context.train.sample(batch, context.seed)
    steps: dict[str, Callable[[], None]] = {}
    for method in ("simclr", "duet", "essl"):
        if method == "essl" and "scale" in experiment.group:
            continue  # it has no meaning there
        steps[method] = training_step(replace(experiment, method=method, weight=None), images, context.seed)
    seconds = medians(times(steps, REPEATS))
    measured = {
        name: {"seconds_per_step": seconds[name], "bytes_at_peak": float(peak_bytes(step))}
        for name, step in steps.items()
    }
    provenance = {**context.provenance(), "batch": batch, "threads": torch.get_num_threads(), "repeats": REPEATS}
    return tabulate_cost(measured, provenance)


def training_step(experiment: Experiment, images: Tensor, seed: int = 0) -> Callable[[], None]:
    """A function that makes one step of a fresh model on these images (B,C,H,W): views, losses, backward, optimiser."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = build_method(experiment)
    stack, generator = build_stack(experiment), torch.Generator().manual_seed(seed)
    optimizer = build_optimizer(method, experiment)

    def step() -> None:
        with torch.no_grad():
            views = method.draw_views(images, stack, generator)
        optimizer.zero_grad()
        torch.stack(list(method.losses(views).values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def tabulate_cost(
    measured: Mapping[str, Mapping[str, float]], provenance: Mapping[str, Any], reference: str = "simclr"
) -> Result:
    """Scalars `METHOD/seconds_per_step` and so on, and `METHOD/relative_...`: the same over the reference's.

    `measured` holds the numbers of every method by name, each above 0, as a benchmark took them side by side.
    """
    scalars: dict[str, float] = {}
    for method, numbers in measured.items():
        for key, value in numbers.items():
            if not value > 0:
                raise ValueError(f"{key} of {method} must be above 0; it is {value}")
            scalars[f"{method}/{key}"] = float(value)
            if key in measured.get(reference, {}):
                scalars[f"{method}/relative_{key}"] = float(value / measured[reference][key])
    return Result("cost", scalars, {}, {**provenance, "reference": reference})
