"""True against recovered elements, and a few whole P(g|x)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ... import figure as draw
from ...error import DuetError
from ...unit import in_unit, unit_name
from ..result import Result

CORNERS = {"zero": "black corners", "circle": "seen through a disc"}


def draw_recovery(result: Result) -> Figure:
    """Recovered against true element: every column the density of one element's images; both kinds of corners."""
    variants = [s for s in ("", *(f"_{name}" for name in CORNERS)) if f"recovered{s}" in result.arrays]
    if not variants:
        raise DuetError("these features have no columns to recover from; draw_probe shows the linear probe")
    error = "median_difference_error_{}" if result.provenance["relative"] else "median_error_{}"
    titles = [_corners(result, suffix) if len(variants) > 1 else "" for suffix in variants]
    return _scatter(result, [(f"recovered{s}", f"{error}{s}", t) for s, t in zip(variants, titles, strict=True)])


def draw_probe(result: Result) -> Figure:
    """The linear probe's element against the true one: from all features and, where they are apart, from content."""
    panels = [("probe", "probe_median_error_{}", "linear probe, all features")]
    if "content_probe" in result.arrays:
        panels.append(("content_probe", "content_probe_median_error_{}", "linear probe, content alone"))
    return _scatter(result, panels)


def draw_marginals(result: Result) -> Figure:
    """P(g|x) of a few test images of the recovery, each with its true element."""
    if "shown_marginal" not in result.arrays:
        raise DuetError("these features have no columns, so there is no P(g|x) to draw")
    marginals, truth, facts = result.arrays["shown_marginal"], result.arrays["shown_g"], result.provenance
    figure = draw.new_figure(1.75 * len(truth) + 0.5, 2.3)
    axes = figure.subplots(1, len(truth), sharey=True, squeeze=False)[0]
    for axis, masses, g in zip(axes, marginals, truth, strict=True):
        value = float(draw.raw(g, facts))
        draw.draw_bars(axis, masses, facts)
        axis.axvline(value, color=draw.ORANGE, lw=2.5)
        axis.set_title(f"true: {in_unit(value, facts['unit'], digits=0)}", fontsize=draw.FONT)
        draw.element_axis(axis.xaxis, facts, ticks=3)
    axes[0].set_ylabel("$P(g\\,|\\,x)$")
    figure.supxlabel(draw.element_label(facts), fontsize=draw.FONT + 1)
    return figure


def _scatter(result: Result, panels: Sequence[tuple[str, str, str]]) -> Figure:
    facts = result.provenance
    figure = draw.new_figure(3.4 * len(panels) + 0.9, 3.6)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    unit = unit_name(facts["unit"])
    columns = draw.edges(draw.raw(result.arrays["g"], facts))
    rows = draw.raw(np.linspace(0, 1, 73), facts)
    shade = None
    for axis, (key, error, title) in zip(axes, panels, strict=True):
        found = draw.raw(result.arrays[key], facts)
        density = np.stack([np.histogram(images, np.sort(rows))[0] / len(images) for images in found], 1)
        shade = axis.pcolormesh(columns, np.sort(rows), density, cmap="Blues", vmin=0, rasterized=True)
        axis.plot(rows[[0, -1]], rows[[0, -1]], color=draw.ORANGE, lw=1.2, ls="--")
        wrong = in_unit(result.scalars[error.format(unit)], facts["unit"])
        axis.set_title(f"{title}\nmedian error {wrong}".strip(), fontsize=draw.FONT)
        axis.set_aspect("equal")
        axis.set_xlabel(f"true {draw.element_label(facts)}")
        axis.set_xlim(min(columns), max(columns))
        draw.element_axis(axis.xaxis, facts)
        draw.element_axis(axis.yaxis, facts)
    axes[0].set_ylabel(f"recovered {draw.element_label(facts)}")
    figure.colorbar(shade, ax=list(axes), shrink=0.8, label="share of the column's images")  # type: ignore[arg-type]
    return figure


def _corners(result: Result, suffix: str) -> str:
    return CORNERS.get(suffix.removeprefix("_") or str(result.provenance.get("corners")), "")
