"""Why a run has not learned: the first of the usual causes whose own test holds, or none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ..evaluation import Result
from ..evaluation.marginals import UNCLEAR, images_differ, reading_of
from ..evaluation.verdict import Verdict
from ..methods import METHODS
from .gathering import Run

FEW_STEPS = 300
"""Steps below which nothing can be said about images or method: the demo begins to learn after about as many."""
FEW_IMAGES = 500
"""Training images below which a network knows them by heart before it has learned the transformation."""


class Case(NamedTuple):
    """What is known of a run that has not learned a group; None where its files do not say."""

    run: Run
    what: str
    steps: int | None
    images: int | None
    marginals: Result | None


def find_cause(run: Run, result: Result, verdict: Verdict) -> str:
    """The first cause whose test holds, and what to do about it; nothing if none does, or if no rival is ahead."""
    if verdict.level.value == "partly" and not verdict.rivals:
        return ""
    images = result.provenance.get("train_images")
    suffix = "".join(result.name.partition("-")[1:])
    case = Case(
        run,
        verdict.claim.what,
        steps_of(run),
        images if isinstance(images, int) else None,
        run.results.get(f"marginals{suffix}"),
    )
    return next((text for cause in CAUSES if (text := cause(case))), "")


def steps_of(run: Run) -> int | None:
    """How many steps the optimiser made: as logged, or else by epochs, images and batch."""
    accumulate = _whole(run.config.get("accumulate")) or 1
    logged = run.metrics.get("step")
    if logged is not None and np.isfinite(logged).any():
        return math.ceil(float(np.nanmax(logged)) / (1 if run.config.get("exact") else accumulate))
    epochs, batch = (_whole(run.config.get(key)) for key in ("epochs", "batch_size"))
    images = next((_whole(found.provenance.get("train_images")) for found in run.results.values()), None)
    if epochs is None or not batch or images is None:
        return None
    return epochs * (images // batch) // accumulate


def _not_asked(case: Case) -> str:
    """The method has no term for a group, or its weight is 0."""
    name = case.run.config.get("method")
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        return ""
    if not any(option.name == "weight" for option in fields(method.Options)):
        return f"{method.title} does not ask for it: nothing in its loss keeps the {case.what}."
    if case.run.config.get("weight") == 0:
        return f"The weight of the group loss is 0: nothing in the loss keeps the {case.what}."
    return ""


def _too_few_steps(case: Case) -> str:
    if case.steps is None or case.steps >= FEW_STEPS:
        return ""
    plural = "step" if case.steps == 1 else "steps"
    text = f"The likely cause is too little training: {case.steps} {plural}, where {FEW_STEPS} are few."
    return f"{text} Give it more (--epochs), or smaller batches (--batch-size)."


def _too_few_images(case: Case) -> str:
    if case.images is None or case.images >= FEW_IMAGES:
        return ""
    text = f"The likely cause is too small a set: {case.images} training images, where {FEW_IMAGES} are few."
    return f"{text} Add images of the same kind, or begin with a network that was trained on more."


def _no_upright(case: Case) -> str:
    found = case.marginals
    try:
        if found is None or found.scalars["ambiguity"] < UNCLEAR:
            return ""
        if not images_differ(reading_of(found)):
            return ""
    except (KeyError, TypeError):  # a stranger's numbers
        return ""
    text = f"Two views of one image are told apart, but images share no upright of the {case.what} that was learned."
    return f"{text} If more training does not find it, they have none: then train with --reference relative."


CAUSES: tuple[Callable[[Case], str], ...] = (_not_asked, _too_few_steps, _too_few_images, _no_upright)
"""In the order in which they are asked: each explains what the next would show too."""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
