"""One figure for each evaluation, drawn from its Result alone, in raw units and in colours that all can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..evaluation.element import unit_name
from ..evaluation.result import Array, Result
from .strips import draw_strips

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#666666"  # Okabe and Ito
ACTIONS = {"prescribed": (BLUE, "the paper's $T_g$"), "fitted": (ORANGE, "fitted action")}
CORNERS = {"zero": "black corners", "circle": "seen through a disc", None: ""}
FONT = 9


def draw_recovery(result: Result) -> Figure:
    """Recovered against true element: every column the density of one element's images; both kinds of corners."""
    variants = [s for s in ("", "_circle", "_zero") if f"recovered{s}" in result.arrays]
    if not variants:
        raise ValueError("these features have no columns to recover from; draw_probe shows the linear probe")
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
        raise ValueError("these features have no columns, so there is no P(g|x) to draw")
    marginals, truth = result.arrays["shown_marginal"], result.arrays["shown_g"]
    figure = _figure(1.75 * len(truth) + 0.5, 2.3)
    axes = figure.subplots(1, len(truth), sharey=True, squeeze=False)[0]
    for axis, masses, g in zip(axes, marginals, truth, strict=True):
        _bars(axis, masses, result)
        axis.axvline(_raw(g, result), color=ORANGE, lw=2.5)
        axis.set_title(f"true: {_with_unit(float(_raw(g, result)), result, digits=0)}", fontsize=FONT)
        _element_axis(axis.xaxis, result, ticks=3)
    axes[0].set_ylabel("$P(g\\,|\\,x)$")
    figure.supxlabel(_label(result), fontsize=FONT + 1)
    return figure


def draw_equivariance(result: Result) -> Figure:
    """The maps on z and on the group logits, for both actions; a dot where each row is smallest."""
    panels = [
        (f"map{where}{kind}", f"{name}, on {space}")
        for where, space in (("", "$z$"), ("_logits", "group logits"))
        for kind, name in (("", ACTIONS["prescribed"][1]), ("_fitted", ACTIONS["fitted"][1]))
        if f"map{where}{kind}" in result.arrays
    ]
    columns = min(2, len(panels))
    figure = _figure(3.9 * columns, 3.3 * -(-len(panels) // columns))
    edges = _edges(_raw(result.arrays["g"], result))
    for axis, (key, title) in zip(
        figure.subplots(-(-len(panels) // columns), columns, squeeze=False).flat, panels, strict=True
    ):
        shade = axis.pcolormesh(edges, edges, result.arrays[key], cmap="cividis", rasterized=True)
        rows = _raw(result.arrays["true_elements"], result)
        found = _raw(result.arrays[key.replace("map", "row_minimum")], result)
        axis.plot(edges[[0, -1]], edges[[0, -1]], color="white", lw=0.8, ls=(0, (4, 3)))
        axis.plot(found, rows, "o", ms=3.2, mfc=ORANGE, mec="black", mew=0.4)
        share = result.scalars[f"row_minimum_within_one_bin{key.removeprefix('map')}"]
        axis.set_title(f"{title}\n{share:.0%} of row minima within one bin", fontsize=FONT)
        axis.set_aspect("equal")
        _element_axis(axis.xaxis, result)
        _element_axis(axis.yaxis, result)
        axis.set(xlim=edges[[0, -1]], ylim=edges[[0, -1]])
        figure.colorbar(shade, ax=axis, shrink=0.85, label="mean squared distance")
    figure.supxlabel(f"$g_2$: features moved to, {_label(result)}", fontsize=FONT + 1)
    figure.supylabel(f"$g_1$: image transformed by, {_label(result)}", fontsize=FONT + 1)
    return figure


def draw_retrieval(result: Result) -> Figure:
    """Hits and mean reciprocal rank of the actions, with chance as a line across each bar's place."""
    measures = [
        (m, t) for m, t in (("hit1", "Hit@1"), ("hit5", "Hit@5"), ("mrr", "MRR")) if f"chance_{m}" in result.scalars
    ]
    kinds = [kind for kind in ACTIONS if f"hit1_{kind}" in result.scalars]
    figure = _figure(1.2 + 1.3 * len(measures), 2.8)
    axis = figure.subplots()
    width = 0.8 / len(kinds)
    for place, kind in enumerate(kinds):
        x = np.arange(len(measures)) + (place - (len(kinds) - 1) / 2) * width
        values = [result.scalars[f"{m}_{kind}"] for m, _ in measures]
        axis.bar(x, values, 0.92 * width, color=ACTIONS[kind][0], label=ACTIONS[kind][1])
        for at, value in zip(x, values, strict=True):
            axis.text(at, value + 0.015, f"{value:.2f}", ha="center", fontsize=FONT)
    for place, (measure, _) in enumerate(measures):
        chance = result.scalars[f"chance_{measure}"]
        axis.plot(
            [place - 0.45, place + 0.45], [chance, chance], color="black", lw=1.5, label=None if place else "chance"
        )
    axis.set_xticks(range(len(measures)), [text for _, text in measures])
    axis.set_ylim(0, 1.08)
    axis.set_ylabel(f"score among {result.provenance['copies']} copies")
    figure.legend(loc="outside upper center", ncols=3, fontsize=FONT, frameon=False)
    return _open(figure)


def draw_ambiguity(result: Result) -> Figure:
    """P(g|x) averaged over untouched images, between what clear and what fully ambiguous data would give."""
    figure = _figure(4.6, 3.1)
    axis = figure.subplots()
    masses = result.arrays["average"]
    centres = _bars(axis, masses, result, label="averaged over untouched images")
    low, high = result.arrays["quartiles"]
    axis.vlines(centres, low, high, color="black", lw=1.4, label="middle half of the images")
    _steps(axis, result.arrays["upright"], result, ORANGE, "-", "if all were upright")
    _steps(axis, result.arrays["anywhere"], result, PURPLE, "--", "if every element were as common")
    modes = _raw(result.arrays["modes"], result)
    axis.plot(
        modes, np.full(len(modes), 1.04 * axis.get_ylim()[1]), "v", color=BLUE, ms=7, clip_on=False, label="modes"
    )
    _element_axis(axis.xaxis, result)
    axis.set_xlabel(_label(result))
    axis.set_ylabel("mass of a bin")
    axis.set_ylim(bottom=0)
    axis.set_title(f"{result.provenance['data']}: ambiguity {result.scalars['ambiguity']:.2f}", fontsize=FONT + 1)
    axis.legend(fontsize=FONT - 1.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.set_figwidth(6.6)
    return _open(figure)


def draw_dependence(result: Result) -> Figure:
    """Delta P of every image, on a logarithmic axis: test images, iid pixels, iid features."""
    names = {"images": "test images", "iid_pixels": "iid pixels", "iid_features": "iid features"}
    values = [result.arrays[f"delta_p_{name}"] for name in names]
    figure = _figure(4.6, 2.4)
    axis = figure.subplots()
    boxes = axis.boxplot(
        values, orientation="horizontal", widths=0.55, patch_artist=True, showfliers=False, whis=(5, 95)
    )
    for box, median, colour in zip(boxes["boxes"], boxes["medians"], (BLUE, GREEN, GREY), strict=True):
        box.set(facecolor=colour, alpha=0.75)
        median.set(color="black", lw=1.5)
    axis.set_yticks(range(1, len(names) + 1), list(names.values()))
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlabel("$\\Delta P$ (box: middle half; whiskers: 5 to 95 %)")
    return _open(figure)


FIGURES = {
    "recovery": {"recovery": draw_recovery, "probe": draw_probe, "marginals": draw_marginals},
    "equivariance": {"equivariance": draw_equivariance},
    "retrieval": {"retrieval": draw_retrieval},
    "marginals": {"ambiguity": draw_ambiguity},
    "dependence": {"dependence": draw_dependence},
    "generation": {"strips": draw_strips},
}
"""The figures of every evaluation, by the result's name and the figure's own."""


def _scatter(result: Result, panels: list[tuple[str, str, str]]) -> Figure:
    figure = _figure(3.4 * len(panels) + 0.9, 3.6)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    unit = unit_name(result.provenance["unit"])
    columns = _edges(_raw(result.arrays["g"], result))
    rows = _raw(np.linspace(0, 1, 73), result)
    shade = None
    for axis, (key, error, title) in zip(axes, panels, strict=True):
        found = _raw(result.arrays[key], result)
        density = np.stack([np.histogram(images, np.sort(rows))[0] / len(images) for images in found], 1)
        shade = axis.pcolormesh(columns, np.sort(rows), density, cmap="Blues", vmin=0, rasterized=True)
        axis.plot(rows[[0, -1]], rows[[0, -1]], color=ORANGE, lw=1.2, ls="--")
        wrong = result.scalars[error.format(unit)]
        axis.set_title(f"{title}\nmedian error {_with_unit(wrong, result)}".strip(), fontsize=FONT)
        axis.set_aspect("equal")
        axis.set_xlabel(f"true {_label(result)}")
        axis.set_xlim(min(columns), max(columns))
        _element_axis(axis.xaxis, result)
        _element_axis(axis.yaxis, result)
    axes[0].set_ylabel(f"recovered {_label(result)}")
    figure.colorbar(shade, ax=list(axes), shrink=0.8, label="share of the column's images")  # type: ignore[arg-type]
    return figure


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _open(figure: Figure) -> Figure:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _raw(g: Any, result: Result) -> Any:
    """The raw parameter of elements g."""
    low, high = result.provenance["span"]
    return low + (high - low) * np.asarray(g, dtype=float)


def _edges(centres: Array) -> Array:
    """Edges between neighbouring values, the outer cells as wide as their neighbours: (n,) -> (n + 1,)."""
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def _bars(axis: Axes, masses: Array, result: Result, label: str | None = None) -> Array:
    edges = _raw(np.linspace(0, 1, len(masses) + 1), result)
    centres: Array = (edges[1:] + edges[:-1]) / 2
    axis.bar(centres, masses, 0.92 * np.diff(edges), color=BLUE, alpha=0.75, label=label)
    axis.set_xlim(edges[0], edges[-1])
    return centres


def _steps(axis: Axes, masses: Array, result: Result, colour: str, style: str, label: str) -> None:
    axis.stairs(masses, _raw(np.linspace(0, 1, len(masses) + 1), result), color=colour, ls=style, lw=1.8, label=label)


def _element_axis(axis: Any, result: Result, ticks: int = 5) -> None:
    """Ticks at quarter turns for degrees, at round numbers otherwise."""
    if result.provenance["unit"] == "degrees":
        low, high = result.provenance["span"]
        quarters = np.arange(np.ceil(low / 90) * 90, high + 1, 90) + 0.0  # no -0
        # Where panels stand close, the ends would run into their neighbours.
        axis.set_ticks(quarters if ticks > 3 else quarters[(quarters > low) & (quarters < high)])
        axis.set_major_formatter(FuncFormatter(lambda value, _: _with_unit(value, result, digits=0)))
    else:
        axis.set_major_locator(MaxNLocator(ticks))
    axis.set_tick_params(labelsize=FONT - 1)


def _label(result: Result) -> str:
    return f"{result.provenance['group']} ({result.provenance['unit'] or 'g'})"


def _with_unit(value: float, result: Result, digits: int = 1) -> str:
    unit = result.provenance["unit"]
    if unit == "degrees":
        return f"{value:.{digits}f}°".replace("-", "\N{MINUS SIGN}")
    return f"{value:.2g} {unit}".strip()


def _corners(result: Result, suffix: str) -> str:
    return CORNERS[suffix.removeprefix("_") or result.provenance.get("corners")]
