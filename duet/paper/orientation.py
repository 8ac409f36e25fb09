"""What `duet orient` does, as a figure: images at random angles, before and after, and how far off it was."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ..application.angle import estimate_rotation, rotation_axis
from ..figure import new_figure
from ..model import Encoder
from ..pixels import as_float

SHOWN = 12
BINS = 36


def draw_orientation(encoder: Encoder, images: Tensor, seed: int = 0) -> Figure:
    """Images (N,C,H,W) turned at random, the same turned back where the model is sure, and the errors' histogram."""
    group = encoder.groups[rotation_axis(encoder).name]
    g = group.sample(len(images), torch.Generator().manual_seed(seed))
    turned = group.apply(as_float(images), g)
    angle, _, _, sure = (part.cpu() for part in estimate_rotation(encoder, encoder.features(turned)))
    upright = group.parameter(group.identity)
    error = torch.remainder(angle - (group.parameter(g) - upright) + 180, 360) - 180
    back = torch.remainder(group.from_parameter(upright - angle), 1)
    after = torch.where(sure.view(-1, 1, 1, 1), group.apply(turned, back), turned)

    chosen = torch.linspace(0, len(images) - 1, min(SHOWN, len(images))).long()
    figure = new_figure(12, 5)
    halves: Any = figure.subfigures(2, 1, height_ratios=[2, 3])
    panels = halves[0].subplots(2, len(chosen), squeeze=False)
    for row, (title, pictures) in zip(panels, (("before", turned), ("after", after)), strict=True):
        for panel, number in zip(row, chosen.tolist(), strict=True):
            panel.imshow(pictures[number].permute(1, 2, 0).clamp(0, 1).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1)
            panel.set_xticks([])
            panel.set_yticks([])
            if title == "after" and not bool(sure[number]):
                panel.set_xlabel("left alone", fontsize=7)
        row[0].set_ylabel(title)
    chart = halves[1].subplots()
    chart.hist(
        [error[sure].numpy(), error[~sure].numpy()], bins=BINS, range=(-180, 180), stacked=True, color=["C0", "0.75"]
    )
    median = f"{error[sure].abs().median():.1f}" if bool(sure.any()) else "none"
    chart.legend([f"sure ({int(sure.sum())}), median error {median}", f"left alone ({int((~sure).sum())})"])
    chart.set_xlabel("estimated minus true angle, degrees counter-clockwise")
    chart.set_ylabel("images")
    return figure
