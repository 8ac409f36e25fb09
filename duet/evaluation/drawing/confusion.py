"""The picture of which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ...error import DuetError
from ...figure import FONT, Array, new_figure

CLASSES = 20  # that can be named
COUNTED = 12  # in whose cells a number fits


def draw_confusion(counts: Array, classes: Sequence[str] = ()) -> Figure:
    """Shares of every row of a table (n,n): true class down, predicted class across."""
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not counts.size:
        raise DuetError("the table of mistakes is not square")
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = len(counts)
    figure = new_figure(4.8, 4.0)
    axis = figure.subplots()
    shade = axis.pcolormesh(shares, cmap="cividis", vmin=0, vmax=1, rasterized=True)
    axis.invert_yaxis()
    axis.set_aspect("equal")
    axis.set(xlabel="predicted", ylabel="true")
    if size <= CLASSES:
        names = [name[:14] for name in classes] if len(classes) == size else [str(i) for i in range(size)]
        ticks = np.arange(size) + 0.5
        turned = 90 if max(map(len, names)) > 2 else 0
        axis.set_xticks(ticks, names, fontsize=FONT - 1, rotation=turned, parse_math=False)
        axis.set_yticks(ticks, names, fontsize=FONT - 1, parse_math=False)
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005 and size <= COUNTED:
                ink = "#111111" if share > 0.5 else "#ffffff"
                text = f"{100 * share:.0f}"
                axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=FONT - 2, color=ink)
    bar = figure.colorbar(shade, ax=axis, shrink=0.85, label="share of the class")
    bar.ax.tick_params(labelsize=FONT - 1)
    return figure
