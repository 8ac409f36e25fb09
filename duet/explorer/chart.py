"""The bars of P(g|x) as shares of a plot, in percent, on a scale that is the model's and not the picture's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ..groups import Group
from ..representation import Axis
from ..unit import in_unit
from .model import Marginal

TOPS = (0.1, 0.2, 0.5, 0.75, 1.0)


class Chart(NamedTuple):
    """All in percent of the plot, from its left and from its foot."""

    bars: list[tuple[float, float, float, str]]  # left, width, height, and the probability in words
    levels: list[tuple[float, str]]
    even: float  # the height that all bars have where nothing is known
    line: float | None  # at the value
    band: list[tuple[float, float]]  # its spread
    ticks: list[tuple[float, str]]


def draw_chart(reading: Marginal, axis: Axis, group: Group) -> Chart:
    """P(g|x) with its scales, the line of equal bars, and the value with its spread where it is known."""
    top, bins = scale_top(reading.masses, axis), len(reading.masses)
    line: float | None = None
    band: list[tuple[float, float]] = []
    if reading.parameter is not None and reading.spread is not None:
        line = _across(group, reading.parameter)
        half = 100 * reading.spread.own / abs(group.span[1] - group.span[0])
        band = group.domain.pieces(line - half, line + half, 100)
    return Chart(
        bars=[(100 * k / bins, 100 / bins, 100 * p / top, _percent(p)) for k, p in enumerate(reading.masses)],
        levels=[(100 * level / top, _percent(level)) for level in _levels(top)],
        even=100 / bins / top,
        line=line,
        band=band,
        ticks=[(_across(group, value), in_unit(value, group.unit, 0, short=True)) for value in _ticks(group)],
    )


def scale_top(masses: list[float], axis: Axis) -> float:
    """Where the scale ends: above the highest bar of a perfect answer, and only above that for a higher bar."""
    middle = torch.tensor([(axis.bins // 2 + 0.5) / axis.bins])
    highest = max(float(axis.target.masses(middle, axis.bins).max()), *masses)
    return next((top for top in TOPS if highest <= top), 1.0)


def _levels(top: float) -> list[float]:
    step = 0.25 if top >= 0.5 else top / 2
    return [step * k for k in range(round(top / step) + 1)]


def _ticks(group: Group) -> list[float]:
    if group.elements is not None:
        return [float(group.parameter(g)) for g in group.elements]
    values: list[float] = np.linspace(*group.span, 5).tolist()
    return values


def _across(group: Group, parameter: float) -> float:
    low, high = group.span
    return 100 * (parameter - low) / (high - low)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
