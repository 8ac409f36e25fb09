"""RankMe (Garrido et al., 2023): the effective rank of the features of test images, from their singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..objectives.joined import smaller_gram
from .context import Context
from .evaluation import Evaluation, Inapplicable, register_evaluation
from .result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON = 1e-7  # of the paper, for features in float32
KINDS = {"": "features", "_centred": "centred features"}


@register_evaluation
class Rank(Evaluation):
    """exp(-sum_k p_k log p_k), p_k = sigma_k / sum sigma + 1e-7, of the singular values of the (N, D) features.

    `rankme` is the paper's, of the features as they are; `rankme_centred` that of the features minus their mean. Both
    are at most min(N, D), up to the 1e-7; `features` is D.
    """

    name = "rank"
    order = 65
    title = "Effective rank"
    question = "Over how many dimensions do the features spread?"
    per_group = False
    on_request = True
    shown = ("rankme", "rankme_centred", "features")
    baselines = ("features",)
    words = {"rankme": "RankMe", "centred": "centred features", "features": "number of features"}
    captions = {
        "singular_values": "Singular values of the features of test images, each divided by their sum, the largest "
        "first. A steep fall means that few dimensions carry almost everything. Values below 1e-7 are drawn at 1e-7.",
    }

    def measure(self, context: Context) -> Result:
        """RankMe of the untouched test images, before and after the mean is subtracted."""
        z = context.test_features.z.cpu()
        if not bool(z.isfinite().all()):
            raise Inapplicable("some features of the test images are NaN or infinite")
        sigma = {kind: singular_values(part) for kind, part in zip(KINDS, (z.double(), centre(z)), strict=True)}
        scalars = {f"rankme{kind}": rankme(values) for kind, values in sigma.items()}
        scalars["features"] = float(z.shape[1])
        arrays = {f"singular_values{kind}": values.numpy() for kind, values in sigma.items()}
        return Result("rank", scalars, arrays, {"images": len(z), "epsilon": EPSILON})

    def measured(self, key: str) -> str:
        """Numbers of dimensions."""
        return "dimensions"

    def text(self, key: str, value: float) -> str:
        """The number of features without decimals."""
        return f"{value:.0f}" if key == "features" else super().text(key, value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """Both spectra; of features that are all zero there is none."""
        if not result.arrays["singular_values"].any():
            return {}
        return {"singular_values": draw_singular_values(result)}

    def sentence(self, result: Result) -> str:
        """Both ranks beside the largest possible one."""
        s, images = result.scalars, int(result.provenance["images"])
        return (
            f"The features of {images:,} test images have an effective rank (RankMe) of {s['rankme']:.1f}, and of "
            f"{s['rankme_centred']:.1f} after their mean is subtracted; {min(images, int(s['features']))} is the most "
            "that is possible."
        )


def centre(z: Tensor) -> Tensor:
    """Features minus their mean, in float64; zero where images differ by no more than rounding: (N, D) -> (N, D)."""
    wide = z.double()
    centred = wide - wide.mean(0)
    # RankMe ignores scale, so the rounding of collapsed features would count as a spectrum like any other.
    return centred if centred.norm() > torch.finfo(z.dtype).eps * wide.norm() else torch.zeros_like(centred)


def singular_values(z: Tensor) -> Tensor:
    """Singular values in falling order, from the smaller Gram matrix: (N, D) -> (min(N, D),).

    A value has an error of up to about 1e-8 of the largest one, which in RankMe is small beside its 1e-7.
    """
    squares: Tensor = torch.linalg.eigvalsh(smaller_gram(z))
    return squares.clamp(min=0).sqrt().flip(0)


def rankme(sigma: Tensor) -> float:
    """exp(-sum_k p_k log p_k), p_k = sigma_k / sum sigma + 1e-7; 0 if all are zero: (k,) -> number."""
    if not bool(sigma.any()):
        return 0.0
    p = sigma / sigma.sum() + EPSILON
    return float((-(p * p.log()).sum()).exp())


def draw_singular_values(result: Result) -> Figure:
    """Shares of the singular values on a logarithmic axis, of the features and of the centred features."""
    from .. import figure as draw

    figure = draw.new_figure(4.6, 2.6)
    axis = figure.subplots()
    for (kind, name), colour, line in zip(KINDS.items(), draw.COLOURS, draw.LINES, strict=False):
        sigma = result.arrays[f"singular_values{kind}"]
        if not sigma.any():
            continue  # collapsed features have nothing left when centred
        share = np.maximum(sigma / sigma.sum(), EPSILON)
        label = f"{name}: RankMe {result.scalars[f'rankme{kind}']:.1f}"
        axis.plot(np.arange(1, len(share) + 1), share, color=colour, ls=line, marker=".", ms=3, label=label)
    axis.set_yscale("log")
    axis.set_xlabel("singular value, the largest first")
    axis.set_ylabel("share of the sum")
    axis.legend(frameon=False, fontsize=draw.FONT)
    return draw.without_frame(figure)
