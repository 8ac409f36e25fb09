"""A raw value as people write it, with its unit."""

from __future__ import annotations

import math
import re


def in_unit(value: float, unit: str, digits: int = 1, short: bool = False) -> str:
    """9.5°, 0.25 factor; `digits` after the point of degrees; `short` leaves a unit that is a word to its axis."""
    if not math.isfinite(value):
        return "unknown"
    if unit == "degrees":
        text = f"{value:.{digits}f}°"
        text = text.removeprefix("-") if float(text[:-1]) == 0 else text  # no -0
    else:
        text = f"{value:.3g}" if short else f"{value:.3g} {unit}".strip()
    return text.replace("-", "\N{MINUS SIGN}")


def unit_name(unit: str) -> str:
    """A unit as part of a name: "degrees", "relative_width"; "g" when there is none."""
    return re.sub(r"[^a-z0-9]+", "_", unit.lower()).strip("_") or "g"
