"""What every source of images becomes: encoded records, labels, class names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .decoding import Encoded


class Records(Protocol):
    """Encoded images by index; picklable, because streaming sends them to worker processes."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Encoded: ...

    def name(self, index: int) -> str:
        """What to call one image in a log."""
        ...


@dataclass(frozen=True)
class Source:
    """Records with labels (N,) int64, -1 where unlabelled; both optional parts are None when absent."""

    records: Records
    labels: Tensor | None = None
    classes: tuple[str, ...] | None = None


# Splits are opened one at a time: the test part of a large set costs nothing while training.
Splits: TypeAlias = Mapping[str, Callable[[], Source]]


class Arrays:
    """Records that are pixels already, (N, H, W) or (N, H, W, 3) uint8."""

    def __init__(self, arrays: NDArray[np.uint8]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, index: int) -> Encoded:
        array: NDArray[np.uint8] = self._arrays[index]
        return array

    def name(self, index: int) -> str:
        return f"image {index}"
