"""The paper's dependence of content and group: on images, on noise, and for random features."""

from __future__ import annotations

from .measured import Measured
from .reproduction import register


@register
class Dependences(Measured):
    """How far the table is from the product of its marginals."""

    name = "dependence"
    summary = "Delta P of content and group: images, independent pixels, independent features"
    evaluate = ("dependence",)
    scalars = ("dependence/delta_p_images", "dependence/delta_p_iid_pixels", "dependence/delta_p_iid_features")
