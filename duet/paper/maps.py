"""Figure 2 of the paper: how far features move as g does, for every pair of g, and the jump of grey."""

from __future__ import annotations

from .measured import Measured
from .reproduction import register


@register
class Maps(Measured):
    """The maps, and whether they are smallest on the diagonal."""

    name = "maps"
    summary = "Figure 2: maps of distances of features over all pairs of g"
    evaluate = ("equivariance",)
    scalars = (
        *("equivariance/row_minimum_within_one_bin", "equivariance/row_minimum_within_one_bin_fitted"),
        *("equivariance/chance_row_minimum", "equivariance/error_prescribed", "equivariance/error_fitted"),
        "equivariance/last_tenth",
    )
    groups = ("rot360", "rot4", "hue", "grayscale")
