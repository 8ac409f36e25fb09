"""Figures as pictures that stand inside the page: SVG in data URIs, which follow light and dark by themselves."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..error import DuetError
from ..evaluation import Result
from ..evaluation.evaluation import evaluation_of
from ..evaluation.result import Array
from ..figure import BLUE, COLOURS, FONT, GREY, LINES, new_figure
from .gathering import Run
from .wording import curves

POINTS = 400  # of a curve: more than can be told apart
PANELS = 8
PIXELS_AN_INCH = 96  # CSS
# What matplotlib draws in black takes the colour of the text around it; an SVG in an <img> runs no script.
STYLE = "svg{color:#1c2127;fill:currentColor;--blue:#0072b2;--grey:#666666}"
DARK = "svg{color:#e4e7eb;--blue:#45a5de;--grey:#9aa3ad}"
INVERTED = "image{filter:invert(1) hue-rotate(180deg)}"  # shades on white become shades on black
ON_WHITE = ("recovery", "probe")


class Picture(NamedTuple):
    """An image for the page, with its size in CSS pixels and the words for those who cannot see it."""

    kind: str
    uri: str
    width: int
    height: int
    alt: str
    caption: str


def draw_result(name: str, result: Result, run: Run) -> Iterator[Picture | str]:
    """The pictures of a result; a sentence in their place when they cannot be drawn."""
    evaluation = evaluation_of(name)
    if evaluation is None:
        return
    try:
        for key, figure in evaluation.figures(result).items():
            caption = evaluation.captions.get(key, "")
            yield as_picture(figure, key, f"{run.name}, {key.replace('_', ' ')}: {caption}", caption)
    except Exception as error:  # a stranger's numbers can fail anywhere in a plot
        reason = str(error).split(";")[0] if isinstance(error, DuetError) else "its numbers are not as expected"
        yield f"The figure of {evaluation.title.lower()} is left out: {reason[:200]}."


def draw_curves(runs: Sequence[Run]) -> Figure | None:
    """A panel for every loss, a line for every run, over epochs; None when there is nothing to draw."""
    known = dict.fromkeys(name for run in runs for name in run.metrics if name not in ("step", "epoch"))
    words = curves()
    names = [*(n for n in words if n in known), *(n for n in known if n not in words)][:PANELS]
    if not names:
        return None
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(3.3 * columns, 2.3 * rows + (0.35 if len(runs) > 1 else 0.1))
    axes = figure.subplots(rows, columns, squeeze=False).flat
    lines: dict[int, Line2D] = {}
    for axis, name in zip(axes, names, strict=False):
        for place, run in enumerate(runs):
            if name in run.metrics:
                x, y = thin(epochs(run.metrics)), thin(run.metrics[name])
                (lines[place],) = axis.plot(x, y, color=colour(place), ls=line(place), lw=1.3)
        axis.set_title(words.get(name, name.replace("_", " ")[:40]), fontsize=FONT, pad=10, parse_math=False)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axis.tick_params(labelsize=FONT - 1)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if name != "lr":
            axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    for axis in list(axes)[len(names) :]:
        axis.set_axis_off()
    figure.supxlabel("epochs", fontsize=FONT)
    if len(runs) > 1:
        names = [runs[place].name[:40] for place in lines]
        legend = figure.legend(list(lines.values()), names, loc="outside upper center", ncols=4, fontsize=FONT)
        legend.set_frame_on(False)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def as_picture(figure: Figure, kind: str, alt: str, caption: str) -> Picture:
    """The figure as SVG in a data URI: the same bytes for the same figure, no date, no fonts needed."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "duet", "svg.fonttype": "path"}):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, dpi=130, metadata=metadata)
    text = buffer.getvalue()
    start = text.index("<svg")
    inside = text.index(">", start) + 1
    dark = DARK + (INVERTED if kind in ON_WHITE else "")
    body = text[inside:].replace("#000000", "currentColor").replace(BLUE, "var(--blue)").replace(GREY, "var(--grey)")
    style = f"<style>{STYLE}@media (prefers-color-scheme:dark){{{dark}}}</style>"
    text = text[start:inside] + style + body
    width, height = (round(PIXELS_AN_INCH * float(side)) for side in figure.get_size_inches())
    return Picture(kind, data_uri("image/svg+xml", text.encode()), width, height, alt, caption)


def data_uri(kind: str, content: bytes) -> str:
    """Bytes as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def epochs(metrics: Mapping[str, Array]) -> Array:
    """Where every row lies, in epochs: of the steps counted in them, as many an epoch as fit all rows."""
    count = len(next(iter(metrics.values())))
    step = metrics.get("step", np.arange(1, count + 1))
    if "epoch" not in metrics:
        return step
    shares = (step / (metrics["epoch"] + 1))[np.isfinite(step) & np.isfinite(metrics["epoch"])]
    each = math.ceil(float(shares.max(initial=0)) - 1e-9)
    return step / max(1, each)


def thin(values: Array) -> Array:
    """At most POINTS of many values, evenly apart, the last among them."""
    if len(values) <= POINTS:
        return values
    kept: Array = values[np.linspace(0, len(values) - 1, POINTS).round().astype(int)]
    return kept


def colour(place: int) -> str:
    """The colour of the run at a place."""
    return COLOURS[place % len(COLOURS)]


def line(place: int) -> str:
    """Its kind of line: together with the colour it tells 28 runs apart."""
    return LINES[place % len(LINES)]
