"""Strips of decoded images: what the decoder makes of T_g f(x), beside the truly transformed image."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...figure import BLUE, GREEN, LINES, ORANGE, VERMILION, Array, element_label, new_figure
from ...representation import ACTIONS
from ...unit import in_unit
from ..decoder_training import describe_decoder
from ..result import Result

COLUMNS = 13  # as many as stay readable
GAP = 2  # pixels between images
# A colour and a line style each, so that nothing rests on colour alone.
STYLES = {"none": ("no action", "#999999", ":")} | {
    action.name: (action.title.removeprefix("the ").replace("T_g", "$T_g$"), colour, style)
    for action, colour, style in zip(ACTIONS, (BLUE, VERMILION, GREEN), (LINES[1], LINES[0], LINES[2]), strict=True)
}


def draw_strips(result: Result) -> Figure:
    """Each image truly transformed, and decoded under each action, with its error; below, the errors over the sweep."""
    truth = result.arrays["truth"]  # (K, S, C, H, W)
    actions = [action.name for action in ACTIONS if f"decoded_{action.name}" in result.arrays]
    columns = _columns(result)
    count, cells = len(truth), len(columns)
    height = truth.shape[3] / truth.shape[4] * 0.62 * (len(actions) + 1)  # inches a strip
    figure = new_figure(0.62 * cells + 2.6, count * (height + 0.12) + 2.6)
    axes = figure.subplots(count + 1, 1, height_ratios=[*[height] * count, 1.7], squeeze=False)[:, 0]
    for axis, number in zip(axes, range(count), strict=False):
        rows = {"truth": truth[number], **{_label(a, result): result.arrays[f"decoded_{a}"][number] for a in actions}}
        _draw_strip(axis, rows, columns)
        _frame_start(axis, result, columns, truth.shape[3:], len(rows))
    labels = _labels(result, columns)
    axes[0].set_xticks(_centres(truth.shape[4], cells), labels, fontsize=9)
    axes[0].xaxis.tick_top()
    _draw_errors(axes[-1], result)
    axes[-1].set_xticks(result.arrays["parameter"][columns], labels, fontsize=9)
    figure.suptitle(_title(result), fontsize=11)
    return figure


def draw_opening(result: Result, shown: int = 2) -> Figure:
    """A few images truly transformed, each above its decoded features under the action with the smallest error."""
    truth, best = result.arrays["truth"][:shown], best_action(result)
    decoded, columns = result.arrays[f"decoded_{best}"], _columns(result)
    height = 2 * truth.shape[3] / truth.shape[4] * 0.62  # inches a strip
    figure = new_figure(0.62 * len(columns) + 2.6, len(truth) * (height + 0.12) + 0.4)
    for axis, number in zip(figure.subplots(len(truth), 1, squeeze=False)[:, 0], range(len(truth)), strict=True):
        _draw_strip(axis, {"truth": truth[number], "decoded": decoded[number]}, columns)
        _frame_start(axis, result, columns, truth.shape[3:], 2)
        if number == 0:
            axis.set_xticks(_centres(truth.shape[4], len(columns)), _labels(result, columns), fontsize=9)
            axis.xaxis.tick_top()
    return figure


def best_action(result: Result) -> str:
    """The action whose decoded images have the smallest error."""
    actions = [action.name for action in ACTIONS if f"decoded_{action.name}" in result.arrays]
    return min(actions, key=lambda name: float(np.mean(result.arrays[f"error_{name}"])))


def _draw_strip(axis: Axes, rows: dict[str, Array], columns: Array) -> None:
    """Rows of images (S,C,H,W) as one picture, their names on the left, their mean squared errors on the right."""
    truth = rows["truth"]
    height = truth.shape[2]
    picture = _mosaic([row[columns] for row in rows.values()])
    axis.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    middles = _centres(height, len(rows))
    axis.set_yticks(middles, rows.keys(), fontsize=9)
    for middle, (name, row) in zip(middles, rows.items(), strict=True):
        text = "error" if name == "truth" else f"{np.mean((row - truth) ** 2):.3f}"
        axis.text(1.01, middle, text, transform=axis.get_yaxis_transform(), va="center", fontsize=9)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _draw_errors(axis: Axes, result: Result) -> None:
    """The error of every action at every g, in the raw unit, and the plain reconstruction's as a level."""
    x = result.arrays["parameter"]
    true = _true(result).tolist()  # only there is there a true image to be compared with
    for name, (label, colour, style) in STYLES.items():
        if f"error_{name}" in result.arrays:
            y = result.arrays[f"error_{name}"]
            axis.plot(x, y, color=colour, linestyle=style, marker="o", ms=3, markevery=true, label=label)
    level = result.scalars["reconstruction_error"]
    axis.axhline(level, color="black", linewidth=1, linestyle="-.", label="reconstruction")
    axis.set_ylim(bottom=0)
    axis.set_xlabel(element_label(result.provenance), fontsize=9)
    axis.set_ylabel("squared error", fontsize=9)
    axis.tick_params(labelsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=9, frameon=False, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _frame_start(axis: Axes, result: Result, columns: Array, size: tuple[int, ...], rows: int) -> None:
    """An orange frame around the column from which the features are moved, if it is part of the sweep."""
    for cell in np.flatnonzero(np.abs(result.arrays["g"][columns] - _start(result)) < 1e-6):
        corner = (cell * (size[1] + GAP) - 1.5, -1.5)
        axis.add_patch(
            Rectangle(
                corner,
                size[1] + 2,
                rows * (size[0] + GAP),
                fill=False,
                edgecolor=ORANGE,
                linewidth=2,
                clip_on=False,
            )
        )


def _mosaic(rows: list[Array]) -> Array:
    """Rows of images (S,C,H,W) side by side with white gaps: (R (H + GAP) - GAP, S (W + GAP) - GAP) or (..., 3)."""
    images = np.stack(rows).transpose(0, 3, 1, 4, 2)  # (R, H, S, W, C)
    count, height, cells, width, channels = images.shape
    spaced = np.ones((count, height + GAP, cells, width + GAP, channels), dtype=np.float32)
    spaced[:, :height, :, :width] = images
    picture = spaced.reshape(count * (height + GAP), cells * (width + GAP), channels)[:-GAP, :-GAP]
    return picture[..., 0] if channels == 1 else picture.clip(0, 1)


def _columns(result: Result) -> Array:
    """Every k-th place of the sweep, at most COLUMNS, the start among them; and all elements of a finite group."""
    g = result.arrays["g"]
    step = -(-len(g) // COLUMNS)
    start = int(np.abs(g - _start(result)).argmin()) % step
    thinned = np.arange(start, len(g), step)
    return np.union1d(thinned, _true(result)) if result.provenance.get("elements") else thinned


def _true(result: Result) -> Array:
    """The places of the sweep that are elements of the group: all, unless it is finite."""
    g, elements = result.arrays["g"], result.provenance.get("elements")
    if not elements:
        return np.arange(len(g))
    return np.flatnonzero(np.abs(g[:, None] - np.array(elements)).min(1) < 1e-6)


def _labels(result: Result, columns: Array) -> list[str]:
    """The raw parameter of every column that is an element of the group."""
    true, unit = set(_true(result).tolist()), result.provenance["unit"]
    values = result.arrays["parameter"]
    return [in_unit(float(values[i]), unit, digits=0, short=True) if i in true else "" for i in columns.tolist()]


def _start(result: Result) -> float:
    """Where the features come from."""
    return float(result.provenance.get("start", result.provenance["identity"]))


def _centres(side: int, count: int) -> Array:
    return (side - 1) / 2 + np.arange(count) * (side + GAP)


def _label(action: str, result: Result) -> str:
    """What an action is called, and if it leaves more error than doing nothing."""
    still, moved = (float(np.mean(result.arrays[f"error_{name}"])) for name in ("none", action))
    return STYLES[action][0] + ("\nworse than no action" if moved > still else "")


def _title(result: Result) -> str:
    what = result.provenance.get("title", result.provenance["group"])
    words = describe_decoder(result.provenance)
    return f"{what}: features of the framed image, moved and decoded" + (f"\nby {words}" if words else "")
