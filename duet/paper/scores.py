"""The runs of Table 2 beside pixels, an untrained network and patches: class, element, retrieval and spectrum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..study.record import Record
from .accuracy import DUET_0, GROUPS, NO_CROP_LEFT, SEPARATE
from .measured import Measured
from .reproduction import Request, register

DIGITS = 9
"""Decimals of a reading: what is left of equal numbers after those is the arithmetic's."""


@register
class Scores(Measured):
    """What every method's features know, and what the baselines know."""

    name = "scores"
    summary = "the runs of Table 2 beside pixels, an untrained network and patches: class, element, retrieval, spectrum"
    evaluate = ("classification", "recovery", "spectrum", "retrieval")
    scalars = (
        *("classification/logistic", "reading/table", "reading/probe", "reading/content_probe"),
        *("retrieval/hit1_prescribed", "retrieval/hit1_fitted", "retrieval/hit1_spectral", "retrieval/chance_hit1"),
        *("spectrum/equivariant_dimensions", "spectrum/invariant_dimensions"),
    )
    groups = GROUPS
    methods = ("simclr", "essl", DUET_0, "duet", SEPARATE)

    def values(self, request: Request) -> dict[str, Any]:
        """With baselines; where the group is left out, scale would leave no crop."""
        return {**super().values(request), "baselines": True, "skip": [NO_CROP_LEFT]}

    def seen(self, record: Record) -> Record:
        """With how well g is read."""
        return with_readings(record)


def with_readings(record: Record) -> Record:
    """With how well g is read, whatever its unit: 0 as if the image were ignored, 1 without error.

    Of a finite group it is the accuracy beyond chance, of others the median error; off the table and by linear probes.
    """
    readings = {
        f"reading/{name}": reading(record, prefix)
        for name, prefix in (("table", ""), ("probe", "probe_"), ("content_probe", "content_probe_"))
    }
    return replace(record, scalars={**record.scalars, **readings})


def reading(record: Record, prefix: str) -> float | None:
    """The share of the way from ignoring the image to no error; None where it was not measured."""
    blind = record.value("recovery/constant_accuracy")
    if blind is not None:
        found = record.value(f"recovery/{prefix}accuracy")
        return None if found is None else round((found - blind) / (1 - blind), DIGITS)
    start = "recovery/constant_median_error_"
    unit = next((name.removeprefix(start) for name in record.scalars if name.startswith(start)), None)
    if unit is None:
        return None
    worst, found = record.value(f"{start}{unit}"), record.value(f"recovery/{prefix}median_error_{unit}")
    return None if found is None or not worst else round(1 - found / worst, DIGITS)
