"""Figure 8 of the paper: how well a decoder draws images from the features of each method."""

from __future__ import annotations

from .measured import Measured
from .reproduction import register


@register
class Reconstructions(Measured):
    """The same decoder, without noise, for every method."""

    name = "reconstruction"
    summary = "Figure 8: the error of one decoder on the features of SimCLR, ESSL and DUET"
    evaluate = ("reconstruction",)
    scalars = ("reconstruction/error", "reconstruction/mean_image_error")
    groups = ("rot360", "rot4", "grayscale", "hue")
    methods = ("simclr", "essl", "duet")
