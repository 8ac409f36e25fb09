"""The side of the views, which may grow while a network is trained: small views cost little and come first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..error import DuetError, shown

SMALLEST = 4
"""Pixels to a side: of fewer nothing can be seen."""
LARGEST = 2**14


@dataclass(frozen=True)
class ViewSizes:
    """Sides in the order in which they are used, each up to a part of the training; the last one up to its end."""

    sides: tuple[int, ...]
    until: tuple[float, ...]

    @classmethod
    def parse(cls, words: Sequence[str]) -> ViewSizes | None:
        """The schedule of words such as 16@0.4 24@0.75 32, or a single 24; None of no words."""
        if not words:
            return None
        sides, until = [], []
        for place, word in enumerate(words):
            found = re.fullmatch(r"(\d{1,6})(?:@(\d*\.?\d+))?", str(word))
            last = place == len(words) - 1
            if found is None or (found[2] is None) != last:
                raise DuetError(
                    f"view_size is written as SIDE@PART ... SIDE, such as 16@0.4 24@0.75 32: a part for every side but "
                    f"the last; it is {shown(' '.join(map(str, words)))}"
                )
            sides.append(int(found[1]))
            until.append(1.0 if last else float(found[2]))
            if not SMALLEST <= sides[-1] <= LARGEST:
                raise DuetError(f"a view_size lies from {SMALLEST} to {LARGEST} pixels; it is {sides[-1]}")
        if any(not 0 < part < 1 for part in until[:-1]) or until != sorted(set(until)):
            raise DuetError(
                f"the parts of view_size rise between 0 and 1; they are {', '.join(f'{part:g}' for part in until[:-1])}"
            )
        return cls(tuple(sides), tuple(until))

    def at(self, progress: float) -> int:
        """The side of the views when this share of the training is done, from 0 to below 1."""
        return next(side for side, until in zip(self.sides, self.until, strict=True) if progress < until)
