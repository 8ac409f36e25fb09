"""Figures 3 and 7 of the paper: features moved by T_g and decoded."""

from __future__ import annotations

from .measured import Measured
from .reproduction import register


@register
class Strips(Measured):
    """Decoded images along a sweep of g."""

    name = "strips"
    summary = "Figures 3 and 7: features moved to other g and decoded"
    evaluate = ("generation",)
    scalars = ("generation/action_error_prescribed", "generation/action_error_fitted", "generation/no_action_error")
