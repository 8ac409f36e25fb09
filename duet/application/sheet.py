"""The images of a run that are most in need of a look: those that the model was least sure of."""

from __future__ import annotations

import heapq
import math
from pathlib import Path
from typing import NamedTuple

LONGEST = 200
"""Images on a sheet: more make a page that nobody looks through."""


class Case(NamedTuple):
    """One image: its name, the file to show it from, what was read, whether it was turned by that, and whether it is
    of a kind that the model knows."""

    path: Path
    before: Path
    degrees: float
    probability: float
    turned: bool
    known: bool = True


class Sheet:
    """Keeps the least sure of all images that it is shown, however many these are."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest
        self.seen = 0
        self._worst: list[tuple[float, int, Case]] = []

    def add(self, case: Case) -> None:
        """Keep it if it is among the least sure so far."""
        doubt = 1.0 if math.isnan(case.probability) else 1 - case.probability
        self.seen += 1
        item = (doubt, -self.seen, case)
        if len(self._worst) < self.longest:
            heapq.heappush(self._worst, item)
        else:
            heapq.heappushpop(self._worst, item)

    @property
    def cases(self) -> list[Case]:
        """The least sure first; of equals the one that came first."""
        return [case for _, _, case in sorted(self._worst, reverse=True)]
