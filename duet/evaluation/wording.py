"""Numbers in words."""

from __future__ import annotations

import math


def percent(value: float) -> str:
    """0.969 -> 96.9 %, never broken between the two."""
    return "not a number" if not math.isfinite(value) else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def number(value: float) -> str:
    """Three digits that matter."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")
