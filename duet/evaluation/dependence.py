"""Are content and group dependent given the image? Delta P = |P(c,g|x) - P(c|x) P(g|x)|^2 (the paper's Table 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..representation import Axis, Layout
from .context import Context
from .evaluation import Evaluation, register_evaluation
from .result import Array, Result
from .subject import need_axis
from .wording import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"images": "test images", "iid_pixels": "noise images", "iid_features": "random features"}


@register_evaluation
class Dependence(Evaluation):
    """Mean Delta P, and mutual information, of test images, of images with iid pixels, and of iid features.

    The joint distribution P(c,g|x) is the softmax over all cells of the table; its sums over rows and over columns are
    P(g|x) and P(c|x). So Delta P lies in [0, 2). iid pixels are uniform in [0, 1]; iid features are normal, with the
    mean and the standard deviation that all features of the test images have together.
    """

    name = "dependence"
    order = 60
    rivals = False
    title = "Dependence"
    question = "Are content and group independent of each other, given the image?"
    shown = ("delta_p_*",)
    words = {"delta_p": "ΔP", **KINDS}
    captions = {
        "dependence": "ΔP measures how far what is in the image and how it is transformed depend on each other in the "
        "features; near 0 they do not.",
    }

    def measure(self, context: Context) -> Result:
        """Delta P of images, of noise, and of random features."""
        subject, group = context.subject, context.group
        axis = need_axis(subject, group)
        z, generator = context.test_features.z.cpu(), context.generator("dependence")
        z = z[torch.randperm(len(z), generator=generator)[: context.sizes.images]]  # sets are often in order of class
        shape = (len(z), *context.test.shape)
        noise = subject.features(torch.rand(shape, generator=generator)).cpu()
        random = z.mean() + z.std() * torch.randn(z.shape, generator=generator)
        scalars: dict[str, float] = {}
        arrays: dict[str, Array] = {}
        for name, features in zip(KINDS, (z, noise, random), strict=True):
            masses = joint(features, subject.layout, axis)
            found = delta_p(masses)
            scalars[f"delta_p_{name}"] = float(found.mean())
            scalars[f"information_{name}"] = float(mutual_information(masses).mean())
            arrays[f"delta_p_{name}"] = found.float().numpy()
        return Result("dependence", scalars, arrays, {"images": len(z), "joint": "softmax over the cells of the table"})

    def summary(self, result: Result) -> dict[str, str]:
        """Nothing: its three numbers are read beside each other."""
        return {}

    def figures(self, result: Result) -> dict[str, Figure]:
        """The distribution of Delta P."""
        return {"dependence": draw_dependence(result)}

    def sentence(self, result: Result) -> str:
        """The three numbers."""
        s = result.scalars
        return (
            f"P(c,g|x) differs from the product of its marginals by ΔP = {number(s['delta_p_images'])} on test images, "
            f"{number(s['delta_p_iid_pixels'])} on noise and {number(s['delta_p_iid_features'])} for random features; "
            "0 would be independent."
        )


def joint(z: Tensor, layout: Layout, axis: Axis) -> Tensor:
    """P(c,g|x), the softmax over the cells of the axis's block: (B,dim) -> (B,cells of a column,bins), in float64."""
    cells = z[:, columns(layout, axis)].double()  # (B, bins, rows)
    return cells.flatten(1).softmax(1).reshape(cells.shape).transpose(1, 2)


def columns(layout: Layout, axis: Axis) -> Tensor:
    """Which features make up every column of an axis: (bins, rows)."""
    # What a unit offset of column j changes is column j, whatever the layout.
    offsets = torch.eye(axis.bins)
    changed = layout.add(torch.zeros(axis.bins, layout.dim), axis, offsets) != 0
    return changed.nonzero()[:, 1].reshape(axis.bins, -1)


def delta_p(masses: Tensor) -> Tensor:
    """Sum over cells of (P(c,g) - P(c) P(g))^2: (B,rows,bins) -> (B,)."""
    independent = masses.sum(2, keepdim=True) * masses.sum(1, keepdim=True)
    return (masses - independent).square().sum((1, 2))


def mutual_information(masses: Tensor) -> Tensor:
    """sum P(c,g) log P(c,g) / (P(c) P(g)), 0 only if independent: (B,rows,bins) -> (B,)."""
    independent = masses.sum(2, keepdim=True) * masses.sum(1, keepdim=True)
    terms: Tensor = torch.special.xlogy(masses, masses) - torch.special.xlogy(masses, independent)
    return terms.sum((1, 2))


def draw_dependence(result: Result) -> Figure:
    """Delta P of every image, on a logarithmic axis: test images, iid pixels, iid features."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from .. import figure as draw

    values = [result.arrays[f"delta_p_{name}"] for name in KINDS]
    figure = draw.new_figure(4.6, 2.4)
    axis = figure.subplots()
    boxes = axis.boxplot(
        values, orientation="horizontal", widths=0.55, patch_artist=True, showfliers=False, whis=(5, 95)
    )
    colours = (draw.BLUE, draw.GREEN, draw.GREY)
    for box, median, colour in zip(boxes["boxes"], boxes["medians"], colours, strict=True):
        box.set(facecolor=colour, alpha=0.75)
        median.set(color="black", lw=1.5)
    axis.set_yticks(range(1, len(KINDS) + 1), list(KINDS.values()))
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=6))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_xlabel("$\\Delta P$ (box: middle half; whiskers: 5 to 95 %)")
    return draw.without_frame(figure)
