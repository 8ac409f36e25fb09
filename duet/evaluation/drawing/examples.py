"""The images that are read best and worst, as shown and as read."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ... import figure as draw
from ...unit import in_unit
from ..result import Array, Result

CELL = 0.72  # inches
GAP = 0.12  # between images, of a cell
LINE = 0.36  # for the value below an image, of a cell


def draw_examples(result: Result) -> Figure:
    """Both halves side by side: above the image as shown, below the same moved to the element that was read."""
    g, facts = result.arrays["example_g"], result.provenance  # (2, k, 2)
    rows = {"shown": result.arrays["example_true"], "read": result.arrays["example_recovered"]}  # (2, k, C, H, W)
    count, (height, width) = g.shape[1], rows["shown"].shape[3:]
    tall = height / width
    figure = draw.new_figure(2 * count * CELL * (1 + GAP) + 1.2, 2 * CELL * (tall + LINE) + 0.3)
    for half, (axis, title) in enumerate(zip(figure.subplots(1, 2), ("read best", "read worst"), strict=True)):
        error = in_unit(float(np.median(result.arrays["example_error"][half])), facts["unit"])
        axis.set_title(f"{title}: off by {error} (median)", fontsize=draw.FONT)
        for row, pictures in enumerate(rows.values()):
            values = [in_unit(float(draw.raw(v, facts)), facts["unit"], 0, short=True) for v in g[half, :, row]]
            _draw_row(axis, pictures[half], values, -row * (tall + LINE), tall)
        axis.set(xlim=(0, count * (1 + GAP) - GAP), ylim=(-2 * (tall + LINE), 0), aspect="equal", xticks=[])
        axis.set_yticks([-row * (tall + LINE) - tall / 2 for row in range(2)], list(rows), fontsize=draw.FONT)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    return figure


def _draw_row(axis: Axes, pictures: Array, values: list[str], top: float, tall: float) -> None:
    """Pictures (k,C,H,W) side by side below `top`, each one wide, with a value under it."""
    for place, (picture, value) in enumerate(zip(pictures, values, strict=True)):
        left = place * (1 + GAP)
        shades = picture.transpose(1, 2, 0)
        shades = shades.squeeze(2) if shades.shape[2] == 1 else shades
        axis.imshow(shades, cmap="gray", vmin=0, vmax=255, extent=(left, left + 1, top - tall, top))
        axis.text(left + 0.5, top - tall - 0.06, value, ha="center", va="top", fontsize=draw.FONT - 1)
