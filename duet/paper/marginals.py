"""Figure 5 of the paper: P(g|x) of untouched images, which is ambiguous for some groups."""

from __future__ import annotations

from .measured import Measured
from .reproduction import register


@register
class Marginals(Measured):
    """How probable each g is held for untouched images."""

    name = "marginals"
    summary = "Figure 5: the mean of P(g|x) over untouched images; flips left and right are ambiguous"
    evaluate = ("marginals",)
    scalars = ("marginals/ambiguity", "marginals/modes")
    groups = ("rot360", "rot4", "hflip", "vflip", "hue")
