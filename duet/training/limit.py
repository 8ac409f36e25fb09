"""The largest numbers that a run may have: beyond them a slip of the finger would ask for more memory than there is."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from ..error import DuetError, shown
from ..groups import find_group

if TYPE_CHECKING:
    from .experiment import Experiment

MOST = {
    **{"dim": 2**16, "bins": 2**12, "neck_width": 2**16, "grid": 2**10, "image_size": 2**14, "cached_views": 10**4},
    **{"epochs": 10**7, "batch_size": 2**24, "accumulate": 2**16, "subset": 10**12, "action_pairs": 10**8},
    **{"views": 2**8, "devices": 2**10, "nodes": 2**16, "turns": 2**12, "projector": 2**16, "extended": 10**7},
}
MOST_WEIGHTS = 2**31
"""Of the projector: 8 GB, four times that with the optimiser's averages."""


def check_limits(experiment: Experiment) -> None:
    """Refuse numbers that no machine could bear, and those that are none."""
    for name, most in MOST.items():
        value = getattr(experiment, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and number > most:
                raise DuetError(f"{name} can be at most {most}; it is {shown(number)}")
    widths = (*([experiment.dim] if experiment.dim else []), *experiment.projector)
    weights = sum(a * b for a, b in pairwise(widths))
    if weights > MOST_WEIGHTS:
        raise DuetError(
            f"a projector of {' '.join(map(str, experiment.projector))} has {weights} weights; give smaller widths"
        )
    for name in ("lr", "sigma", "temperature", "weight", "weight_decay", "warmup_epochs"):
        value = getattr(experiment, name)
        if value is not None and not math.isfinite(value):
            raise DuetError(f"{name} must be a finite number; it is {value}")
    if "\0" in experiment.data:
        raise DuetError("data holds a NUL character, which no file's name can have")
    find_group("scale").configured(area=experiment.area)
