"""Are content and group dependent given the image? Delta P = |P(c,g|x) - P(c|x) P(g|x)|^2 (the paper's Table 4)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..representation import Axis, Layout
from .context import Context
from .result import Array, Result


def measure_dependence(context: Context) -> Result:
    """Mean Delta P, and mutual information, of test images, of images with iid pixels, and of iid features.

    The joint distribution P(c,g|x) is the softmax over all cells of the table; its sums over rows and over columns are
    P(g|x) and P(c|x). So Delta P lies in [0, 2). iid pixels are uniform in [0, 1]; iid features are normal, with the
    mean and the standard deviation that all features of the test images have together.
    """
    subject, group = context.subject, context.group
    axis = subject.needs_axis(group)
    z, generator = context.test_features.z, context.generator("dependence")
    z = z[torch.randperm(len(z), generator=generator)[: context.sizes.images]]  # sets are often in order of class
    shape = (len(z), *context.test.shape)
    noise = subject.features(torch.rand(shape, generator=generator))
    random = z.mean() + z.std() * torch.randn(z.shape, generator=generator)
    scalars: dict[str, float] = {}
    arrays: dict[str, Array] = {}
    for name, features in (("images", z), ("iid_pixels", noise), ("iid_features", random)):
        masses = joint(features, subject.layout, axis)
        found = delta_p(masses)
        scalars[f"delta_p_{name}"] = float(found.mean())
        scalars[f"information_{name}"] = float(mutual_information(masses).mean())
        arrays[f"delta_p_{name}"] = found.float().numpy()
    provenance = {**context.provenance(), "images": len(z), "joint": "softmax over the cells of the table"}
    return Result("dependence", scalars, arrays, provenance)


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
