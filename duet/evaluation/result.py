"""Result: what an evaluation found, as numbers and arrays, with where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Result:
    """Named numbers, named arrays, and what they were computed from."""

    name: str
    scalars: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
