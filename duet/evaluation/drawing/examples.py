"""The images that are read best and worst, as shown and as read."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ... import figure as draw
from ...unit import in_unit
from ..result import Result

CELL = 0.72  # inches
HALVES = ("read best", "read worst")


def draw_examples(result: Result) -> Figure:
    """Both halves side by side: above the image as shown, below the same moved to the element that was read."""
    facts, g = result.provenance, result.arrays["example_g"]  # (2, k, 2)
    rows = [result.arrays["example_true"], result.arrays["example_recovered"]]  # (2, k, C, H, W) each
    count, (height, width) = g.shape[1], rows[0].shape[3:]
    figure = draw.new_figure(2 * count * CELL + 1.5, 2 * CELL * height / width + 0.8)
    halves: Any = figure.subfigures(1, 2, wspace=0.06)
    for half, title in enumerate(HALVES):
        error = in_unit(float(np.median(result.arrays["example_error"][half])), facts["unit"])
        halves[half].suptitle(f"{title}: off by {error} (median)", fontsize=draw.FONT)
        axes = halves[half].subplots(2, count, squeeze=False)
        for row, (pictures, label) in enumerate(zip(rows, ("shown", "read"), strict=True)):
            for axis, picture, element in zip(axes[row], pictures[half], g[half, :, row], strict=True):
                shades = picture.transpose(1, 2, 0)
                axis.imshow(shades.squeeze(2) if shades.shape[2] == 1 else shades, cmap="gray", vmin=0, vmax=255)
                value = in_unit(float(draw.raw(element, facts)), facts["unit"], digits=0, short=True)
                axis.set_xlabel(value, fontsize=draw.FONT - 1, labelpad=1)
                axis.set_xticks([])
                axis.set_yticks([])
                axis.spines[:].set_visible(False)
            axes[row][0].set_ylabel(label, fontsize=draw.FONT, rotation=0, ha="right", va="center")
    return figure
