"""Drawing: the colours that all can tell apart, and axes in raw units. Imported where something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from .unit import in_unit

Array = NDArray[Any]
Facts = Mapping[str, Any]
"""What a group says of itself: its span, unit and title."""

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#666666"  # Okabe and Ito
VERMILION, SKY = "#d55e00", "#56b4e9"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, GREY)
LINES = ("-", "--", "-.", ":")
FONT = 9


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    return Figure(figsize=(width, height), layout="constrained")


def without_frame(figure: Figure) -> Figure:
    """The figure with its axes open at the top and on the right."""
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def raw(g: Any, facts: Facts) -> Any:
    """The raw parameter of elements g."""
    low, high = facts["span"]
    return low + (high - low) * np.asarray(g, dtype=float)


def edges(centres: Array) -> Array:
    """Edges between neighbouring values, the outer cells as wide as their neighbours: (n,) -> (n + 1,)."""
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def draw_bars(axis: Axes, masses: Array, facts: Facts, label: str | None = None) -> Array:
    """Masses of equal bins as bars over the raw values; returns the bins' centres."""
    ends = raw(np.linspace(0, 1, len(masses) + 1), facts)
    centres: Array = (ends[1:] + ends[:-1]) / 2
    axis.bar(centres, masses, 0.92 * np.diff(ends), color=BLUE, alpha=0.75, label=label)
    axis.set_xlim(ends[0], ends[-1])
    return centres


def draw_steps(axis: Axes, masses: Array, facts: Facts, colour: str, style: str, label: str) -> None:
    """Masses of equal bins as a line of steps."""
    axis.stairs(masses, raw(np.linspace(0, 1, len(masses) + 1), facts), color=colour, ls=style, lw=1.8, label=label)


def element_axis(axis: Any, facts: Facts, ticks: int = 5) -> None:
    """Ticks at quarter turns for degrees, at round numbers otherwise."""
    if facts["unit"] == "degrees":
        low, high = facts["span"]
        quarters = np.arange(np.ceil(low / 90) * 90, high + 1, 90) + 0.0  # no -0
        # Where panels stand close, the ends would run into their neighbours.
        axis.set_ticks(quarters if ticks > 3 else quarters[(quarters > low) & (quarters < high)])
        axis.set_major_formatter(FuncFormatter(lambda value, _: in_unit(value, "degrees", digits=0)))
    else:
        axis.set_major_locator(MaxNLocator(ticks))
    axis.set_tick_params(labelsize=FONT - 1)


def element_label(facts: Facts) -> str:
    """What an axis of raw values is called."""
    return f"{facts.get('title') or facts['group']} ({facts['unit'] or 'g'})"


def draw_marginal(
    masses: Array, span: Sequence[float], unit: str, name: str, value: float | None = None, title: str = ""
) -> Figure:
    """P(g|x) of one image, with a line at a value."""
    facts = {"span": span, "unit": unit, "group": name}
    figure = new_figure(3.6, 2.4)
    axis = figure.subplots()
    draw_bars(axis, masses, facts)
    if value is not None:
        axis.axvline(value, color=ORANGE, lw=2.5)
    axis.set_title(title, fontsize=FONT)
    axis.set_ylabel("$P(g\\,|\\,x)$")
    axis.set_xlabel(element_label(facts))
    axis.set_ylim(bottom=0)
    element_axis(axis.xaxis, facts)
    return without_frame(figure)
