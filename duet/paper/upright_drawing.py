"""Pictures of how upright was found: the errors of all images, and the worst of them before and after."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ..data import Images
from ..figure import BLUE, GREY, Array, new_figure, without_frame
from ..groups import Group
from .upright import RIGHT, Readings, turn

COLUMNS = 12
BINS = 36


def draw_readings(readings: Readings) -> Figure:
    """How far off the images are read, the surest apart from the rest."""
    best = readings.surest()
    among = torch.isin(readings.number, best.number)
    figure = new_figure(7, 3)
    axis = figure.subplots()
    axis.hist(
        [best.error.numpy(), readings.error[~among].numpy()],
        bins=BINS,
        range=(0, 180),
        stacked=True,
        color=[BLUE, GREY],
        label=[f"surest {len(best)}: median {best.error.median():.1f}°", f"other {len(readings) - len(best)}"],
    )
    axis.axvline(RIGHT, color="black", lw=0.8, ls=":")
    axis.set_yscale("log")
    axis.set_xlabel("degrees between the angle that is read and the true one")
    axis.set_ylabel("photos")
    axis.legend()
    return without_frame(figure)


def draw_worst(readings: Readings, images: Images, group: Group) -> Figure:
    """Images as they were shown (above) and turned back by what was read (below), with how far off that is."""
    rows = max(1, -(-len(readings) // COLUMNS))
    figure = new_figure(COLUMNS, 2.25 * rows)
    panels = figure.subplots(2 * rows, COLUMNS, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    errors = readings.error.tolist()
    for place in range(len(readings)):
        row, column = divmod(place, COLUMNS)
        pixels = images[int(readings.number[place])].unsqueeze(0)
        for below, degrees in enumerate((readings.turned[place], readings.turned[place] - readings.read[place])):
            picture = turn(pixels, group, degrees.reshape(1) / 360)[0]
            panels[2 * row + below, column].imshow(_shown(picture), cmap="gray", vmin=0, vmax=1)
        panels[2 * row + 1, column].set_title(f"{errors[place]:.0f}° off", fontsize=8, pad=2)
    return figure


def _shown(image: Tensor) -> Array:
    return image.permute(1, 2, 0).clamp(0, 1).squeeze(-1).cpu().numpy()
