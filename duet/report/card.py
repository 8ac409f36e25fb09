"""A score card as one page that needs no network: the table, everyone in one picture, the depth of every layer."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evaluation.card import Card, Column, Row, cell, columns, row_title, shown_columns
from ..figure import COLOURS, FONT, GREY, LINES, new_figure, without_frame
from ..file import write_text
from .drawing import Picture, as_picture, data_uri
from .template import open_templates, read_part
from .wording import noun

LABELLED = 12  # points that a picture can name
LONGEST = 24  # characters of a layer's name on an axis
LOG_FROM = 1e-3  # errors below are drawn there
EVERYONE = (
    "Every encoder: what it knows of the class, and of the transformation. Hollow: baselines, such as pixels and "
    "k-means patches. Lines: 95 % intervals."
)
DEPTH = (
    "From the first layer to the last: what its mean over the image still knows, and what a grid of means does. "
    "Shades: 95 % intervals."
)
FOLLOWING = ("difference", "error")
"""The columns by which following the group is judged, the first that was measured."""


class Value(NamedTuple):
    """A cell of a table: a number, its interval, and what it is sorted by."""

    text: str
    interval: str = ""
    sort: str | float = ""


class Line(NamedTuple):
    """A line of a table."""

    head: str
    rival: bool
    advice: str
    cells: list[Value]


class Lines(NamedTuple):
    """A table: the columns in which somebody has a number, and its lines."""

    columns: list[Column]
    lines: list[Line]


class Part(NamedTuple):
    """What the page says of one group: encoders, layers, pictures."""

    anchor: str
    heading: str
    encoders: Lines
    layers: Lines
    pictures: list[Picture]


def write_card(card: Card, out: Path) -> Path:
    """Write the page; all of it or nothing."""
    write_text(Path(out), render_card(card))
    return Path(out)


def render_card(card: Card) -> str:
    """The HTML of the page."""
    templates = open_templates()
    script, style = (read_part(f"report.{kind}") for kind in ("js", "css"))
    names = list(dict.fromkeys(row.encoder for row in card.rows if not row.rival))
    data = card.protocol.get("data")
    return templates.get_template("card.html").render(
        heading=f"{_joined(names)}{f' on {data}' if data else ''}",
        parts=list(_parts(card)),
        protocol=[(key, _plain(value)) for key, value in card.protocol.items() if key != "evaluations"],
        definitions=[(name, " ".join(str(text).split())) for name, text in card.protocol["evaluations"].items()],
        download=data_uri("application/json", json.dumps(card.to_dict(), indent=1, allow_nan=False).encode()),
        script=Markup(script),
        style=Markup(style),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _parts(card: Card) -> Iterator[Part]:
    for group in dict.fromkeys(row.group for row in card.rows):
        rows = [row for row in card.rows if row.group == group]
        drawn = {"map": (draw_everyone(rows, group), EVERYONE), "depth": (draw_depth(rows, group), DEPTH)}
        pictures = [
            as_picture(figure, kind, f"{noun(group)}: {text}", text)
            for kind, (figure, text) in drawn.items()
            if figure is not None
        ]
        final, inner = ([row for row in rows if (row.layer is None) is wanted] for wanted in (True, False))
        yield Part(group, noun(group).capitalize(), _lines(final, group), _lines(inner, group), pictures)


def _lines(rows: Sequence[Row], group: str) -> Lines:
    known = shown_columns(rows, group)
    return Lines(known, [_line(row, known) for row in rows])


def _line(row: Row, known: Sequence[Column]) -> Line:
    found = [cell(row, column) for column in known]
    cells = [Value("–") if one is None else Value(one.text, one.interval, one.value) for one in found]
    return Line(row_title(row), row.rival, row.advice, cells)


def draw_everyone(rows: Sequence[Row], group: str) -> Figure | None:
    """Accuracy against how well the features follow the group; without labels the latter alone. None without either."""
    follows = _following(rows, group)
    final = [row for row in rows if row.layer is None]
    accuracy = next(column for column in columns(group) if column.title == "accuracy")
    points = [] if follows is None else [row for row in final if cell(row, follows) is not None]
    if follows is None or not points:
        return None
    labelled = all(cell(row, accuracy) is not None for row in points)
    figure = new_figure(6.4, 4.2 if labelled else 0.9 + 0.4 * len(points))
    axis = figure.subplots()
    colours = iter(COLOURS * len(points))
    for place, row in enumerate(points):
        x, wide = _place(row, follows)
        y, tall = _place(row, accuracy) if labelled else (float(-place), None)
        colour = GREY if row.rival else next(colours)
        face = "none" if row.rival else colour
        axis.errorbar(x, y, xerr=wide, yerr=tall, fmt="o", ms=8, mfc=face, mec=colour, ecolor=colour, elinewidth=1.2)
        if len(points) <= LABELLED and labelled:
            axis.annotate(
                row_title(row)[:40], (x, y), (7, 7), textcoords="offset points", fontsize=FONT, parse_math=False
            )
    _follow_axis(axis, follows)
    if labelled:
        axis.set_ylabel("accuracy of a linear classifier")
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    else:
        axis.set_yticks([-float(i) for i in range(len(points))], [row_title(row)[:40] for row in points])
        axis.set_ylim(0.6 - len(points), 0.6)
    axis.margins(x=0.2, y=0.15)
    axis.grid(alpha=0.25)
    return without_frame(figure)


def draw_depth(rows: Sequence[Row], group: str) -> Figure | None:
    """What every layer knows, over the depth of the network; None without layers."""
    layered = [row for row in rows if row.layer is not None]
    follows = _following(layered, group)
    neighbours = next(column for column in columns(group) if column.title == "neighbours")
    panels = [c for c in (follows, neighbours) if c is not None and any(cell(row, c) for row in layered)]
    if not panels:
        return None
    encoders = list(dict.fromkeys(row.encoder for row in layered))
    figure = new_figure(4.4 * len(panels), 3.6)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    longest: list[str] = []
    for axis, column in zip(axes, panels, strict=True):
        for encoder, colour in zip(encoders, COLOURS * len(encoders), strict=False):
            own = [row for row in layered if row.encoder == encoder]
            names = list(dict.fromkeys(_layer(row) for row in own))
            longest = max(longest, names, key=len)
            for kind, style in zip(("pooled", "grid"), LINES, strict=False):
                found = [row for row in own if str(row.layer).endswith(f"({kind})") and cell(row, column) is not None]
                x = [names.index(_layer(row)) for row in found]
                places = [_place(row, column) for row in found]
                low = [value - (0 if ends is None else ends[0][0]) for value, ends in places]
                high = [value + (0 if ends is None else ends[1][0]) for value, ends in places]
                label = f"{encoder}, {kind}" if len(encoders) > 1 else kind
                axis.plot(x, [value for value, _ in places], color=colour, ls=style, marker="o", ms=4, label=label)
                axis.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        axis.set_title(column.meaning, fontsize=FONT)
        ticks = [name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}" for name in longest]
        labels = axis.set_xticks(range(len(ticks)), ticks, rotation=60, ha="right", fontsize=FONT - 1)
        for label in labels:
            label.label1.set_parse_math(False)
        _value_scale(axis, column)
        axis.grid(alpha=0.25)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return without_frame(figure)


def _following(rows: Sequence[Row], group: str) -> Column | None:
    """By which number following the group is judged: the first that somebody has."""
    known = [column for column in columns(group) if column.title in FOLLOWING]
    return next((column for column in known if any(cell(row, column) is not None for row in rows)), None)


def _follow_axis(axis: Axes, column: Column) -> None:
    unit = f" ({column.unit})" if column.unit not in ("", "%") else ""
    axis.set_xlabel(f"{column.meaning.replace(', without labels', '')}{unit}, better to the right")
    if column.higher:
        axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        return
    axis.set_xscale("log")
    axis.invert_xaxis()
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(lambda value, _: "")


def _value_scale(axis: Axes, column: Column) -> None:
    if column.higher:
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axis.set_ylim(bottom=0)
    else:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _: "")


def _place(row: Row, column: Column) -> tuple[float, list[list[float]] | None]:
    """A value, and how far its interval reaches below and above, as matplotlib takes it."""
    least = -math.inf if column.higher else LOG_FROM
    value = max(least, row.scalars[column.key_of(row)])
    ends = row.intervals.get(column.key_of(row))
    if ends is None:
        return value, None
    return value, [[max(0.0, value - max(least, ends[0]))], [max(0.0, ends[1] - value)]]


def _layer(row: Row) -> str:
    return str(row.layer).rpartition(" (")[0]


def _joined(names: Sequence[str]) -> str:
    shown = list(names[:3]) + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else (shown[0] if shown else "rivals")


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
