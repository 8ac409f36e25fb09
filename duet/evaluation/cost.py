"""What a method costs: measured seconds and bytes as a Result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .result import Result


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
