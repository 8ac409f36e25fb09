"""Examples of tau_g: what every group does to an image as g runs from 0 to 1."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ..figure import ORANGE, new_figure
from ..groups import GROUPS
from ..unit import in_unit


def draw_transformations(image: Tensor, columns: int = 9) -> Figure:
    """A row a group, a column a value of g; image (3,H,W) in [0,1]. The untouched image has an orange frame."""
    figure = new_figure(1.05 * columns + 1.6, 1.28 * len(GROUPS))
    axes = figure.subplots(len(GROUPS), columns, squeeze=False)
    for row, group in zip(axes, GROUPS.values(), strict=True):
        g = torch.linspace(0, 1, columns)
        changed = group.apply(image.expand(columns, *image.shape), g)
        for axis, picture, element in zip(row, changed, g, strict=True):
            axis.imshow(picture.permute(1, 2, 0).numpy(), interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            label = in_unit(float(group.parameter(float(element))), group.unit, digits=0, short=True)
            axis.set_title(label, fontsize=8, pad=2)
            here = abs(float(element) - group.identity) < 1e-6
            for spine in axis.spines.values():
                spine.set(color=ORANGE if here else "#999999", linewidth=2.5 if here else 0.5)
        row[0].set_ylabel(f"{group.name}\n({group.unit})", fontsize=9, rotation=0, ha="right", va="center")
    figure.supxlabel("g from 0 to 1; above each image its raw parameter", fontsize=9)
    return figure
