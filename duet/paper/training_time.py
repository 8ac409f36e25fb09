"""The paper's comparison of training times: a step of every method over one of SimCLR."""

from __future__ import annotations

from .measured import Measured
from .reproduction import register


@register
class TrainingTime(Measured):
    """Measured side by side; leave the machine alone meanwhile."""

    name = "cost"
    summary = "training time of DUET and ESSL over SimCLR's"
    evaluate = ("cost",)
    scalars = ("cost/duet/relative_seconds_per_step", "cost/essl/relative_seconds_per_step")
    groups = ("rot4",)
