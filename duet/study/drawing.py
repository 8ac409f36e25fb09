"""A table as a picture: a point with its deviation for every cell, a colour for every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..figure import COLOURS, new_figure, without_frame
from ..file import whole_file
from .table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_table(table: Table, title: str = "") -> Figure:
    """Columns along the axis, rows side by side within each; hollow points are others' numbers."""
    lines = table.lines()
    figure = new_figure(max(4.0, 1.6 + 0.28 * len(table.columns) * max(len(lines), 3)), 3.8)
    axes = figure.subplots()
    for place, (row, cells) in enumerate(lines):
        shown = [(at, cell) for at, cell in enumerate(cells) if cell is not None]
        offset = 0.7 * ((place + 0.5) / len(lines) - 0.5)
        axes.errorbar(
            [at + offset for at, _ in shown],
            [cell.mean for _, cell in shown],
            yerr=[cell.std or 0.0 for _, cell in shown],
            fmt="o",
            markersize=5,
            capsize=2,
            linewidth=1,
            label=row,
            color=COLOURS[place % len(COLOURS)],
            markerfacecolor="none" if row in table.beside else COLOURS[place % len(COLOURS)],
        )
    axes.set_xticks(range(len(table.columns)), table.columns, rotation=0 if len(table.columns) < 8 else 30)
    axes.set_ylabel(table.value)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, frameon=False, ncols=2)
    return without_frame(figure)


def save_table(table: Table, path: Path, title: str = "") -> None:
    """Write the picture as PNG."""
    with whole_file(path) as partial:
        draw_table(table, title).savefig(partial, dpi=130)
