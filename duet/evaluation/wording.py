"""Numbers in words."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percent(value: float) -> str:
    """0.969 -> 96.9 %, never broken between the two."""
    return "not a number" if not math.isfinite(value) else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def join(parts: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def number(value: float) -> str:
    """Three digits that matter."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")
