"""What a method costs (the paper's comparison of training times): measured seconds and bytes as a Result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..error import DuetError
from ..evaluation import Context, Evaluation, Inapplicable, Result, register_evaluation
from ..methods import METHODS
from ..model import Encoder
from ..training.experiment import Experiment, build_method, build_optimizer, build_stack
from ..training.step import loss_of_batch, parameter_groups
from .timing import medians, peak_bytes, times

REPEATS = 10
MOST = 256  # images a step, so that a large batch does not make it a long wait
REFERENCE = "simclr"


@register_evaluation
class Cost(Evaluation):
    """Seconds and bytes of a training step of every method, with the run's backbone, group and batch."""

    name = "cost"
    title = "Cost"
    question = "What does training cost beside SimCLR?"
    order = 90
    rivals = False
    per_group = False
    on_request = True
    words = {"relative": "over SimCLR's", **{name: method.title for name, method in METHODS.items()}}

    def measure(self, context: Context) -> Result:
        """Steps of every method that has a meaning for the run's groups, side by side."""
        experiment = _experiment_of(context)
        batch = min(experiment.batch_size, MOST, len(context.train))
        images = context.train.sample(batch, context.seed)
        steps: dict[str, Callable[[], None]] = {}
        for method in METHODS:
            with contextlib.suppress(DuetError):  # ESSL, for one, has no meaning for scale
                own = replace(experiment, method=method, weight=None, reference="absolute", options={})
                steps[method] = training_step(own, images, context.seed)
        seconds = medians(times(steps, REPEATS))
        measured = {
            name: {"seconds_per_step": seconds[name], "bytes_at_peak": float(peak_bytes(step))}
            for name, step in steps.items()
        }
        facts = {"batch": batch, "threads": torch.get_num_threads(), "repeats": REPEATS}
        return tabulate_cost(measured, facts)


def training_step(experiment: Experiment, images: Tensor, seed: int = 0) -> Callable[[], None]:
    """A function that makes one step of a fresh model on these images (B,C,H,W): views, losses, backward, optimiser."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = build_method(experiment, image_size=(images.shape[2], images.shape[3]))
    stack, generator = build_stack(experiment), torch.Generator().manual_seed(seed)
    optimizer = build_optimizer(parameter_groups(method), experiment)
    count = iter(range(2**62))

    def step() -> None:
        loss, _ = loss_of_batch(method, stack, images, generator)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.after_step(next(count))

    return step


def tabulate_cost(
    measured: Mapping[str, Mapping[str, float]], provenance: Mapping[str, Any], reference: str = REFERENCE
) -> Result:
    """Scalars `METHOD/seconds_per_step` and so on, and `METHOD/relative_...`: the same over the reference's.

    `measured` holds the numbers of every method by name, each above 0, as a benchmark took them side by side.
    """
    scalars: dict[str, float] = {}
    for method, numbers in measured.items():
        for key, value in numbers.items():
            if not value > 0:
                raise DuetError(f"{key} of {method} must be above 0; it is {value}")
            scalars[f"{method}/{key}"] = float(value)
            if key in measured.get(reference, {}):
                scalars[f"{method}/relative_{key}"] = float(value / measured[reference][key])
    return Result("cost", scalars, {}, {**provenance, "reference": reference})


def _experiment_of(context: Context) -> Experiment:
    """How the subject was trained: config.yaml in its run's folder says that."""
    config = None if context.run is None else context.run / "config.yaml"
    if config is None or not config.exists() or not isinstance(context.subject, Encoder):
        raise Inapplicable("only a run that was trained here says how it is trained")
    return Experiment.from_yaml(config)
