"""Small sets: decoded once into one uint8 tensor and sampled by index."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ..error import DuetError
from ..progress import track
from .decoding import Pixels, Unreadable, decode, quiet
from .images import Batch, Images
from .pool import Pool, in_parts
from .source import Records

CHUNK = 64


class MemoryImages(Images):
    """All pixels in one tensor (N, C, H, W): no worker processes, no copy but the batch itself."""

    storage = "memory"
    statistics_sample = 10_000

    def __init__(
        self,
        name: str,
        split: str,
        pixels: Tensor,
        labels: Tensor | None = None,
        classes: tuple[str, ...] | None = None,
        failures: dict[str, str] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        _, channels, height, width = pixels.shape
        super().__init__(name, split, (channels, height, width), labels, classes)
        self._pixels, self._names = pixels, names
        self._rows: Tensor | None = None  # those of the pixels that belong to it; None: all
        self._note_failures(failures or {})

    def __len__(self) -> int:
        return len(self._pixels if self._rows is None else self._rows)

    def __getitem__(self, index: int) -> Tensor:
        return self._pixels[index if self._rows is None else int(self._rows[index])]

    def identities(self) -> Iterator[bytes]:
        rows = range(len(self._pixels)) if self._rows is None else self._rows.tolist()
        if self._names is not None:
            return (self._names[row].encode("utf-8", "backslashreplace") for row in rows)
        return (self._pixels[row].cpu().contiguous().numpy().tobytes() for row in rows)

    def _part(self, rows: Tensor, split: str) -> "MemoryImages":
        labels = None if self.labels is None else self.labels[rows]
        found = MemoryImages(self.name, split, self._pixels, labels, self.classes, names=self._names)
        found._rows = rows if self._rows is None else self._rows[rows]
        return found

    def _fetch(self, batches: Iterable[Tensor], replace: bool) -> Iterator[Batch]:
        for batch in batches:
            rows = batch if self._rows is None else self._rows[batch]
            yield self._pixels.index_select(0, rows), None if self.labels is None else self.labels[batch]

    def tensors(self) -> Batch:
        return self._pixels if self._rows is None else self._pixels[self._rows], self.labels


def decode_all(
    records: Records, indices: Tensor, shape: tuple[int, int, int], image_size: int | None, label: str
) -> tuple[Tensor, Tensor, dict[str, str]]:
    """Pixels (n, C, H, W) of the readable images, their indices (n,), and why the others are not there."""
    pixels = np.empty((len(indices), *shape), dtype=np.uint8)
    kept: list[int] = []
    failures: dict[str, str] = {}

    def read(index: int) -> tuple[int, Pixels | str]:
        return index, _decode_or_reason(records, index, shape[0], image_size)

    with quiet():
        chunks = in_parts(Pool().map(read, indices.tolist()), CHUNK)
        for chunk in track(((len(chunk), chunk) for chunk in chunks), len(indices), label):
            for index, result in chunk:
                if isinstance(result, str):
                    failures[records.name(index)] = result
                    continue
                if result.shape != shape:
                    sizes = " and ".join(f"{w}x{h}" for _, h, w in (shape, result.shape))
                    raise DuetError(f"images of different sizes ({sizes}): choose one with --image-size")
                pixels[len(kept)] = result
                kept.append(index)
    return torch.from_numpy(pixels[: len(kept)]), torch.tensor(kept, dtype=torch.int64), failures


def _decode_or_reason(records: Records, index: int, channels: int, image_size: int | None) -> Pixels | str:
    try:
        return decode(records[index], channels, image_size)
    except Unreadable as error:
        return str(error)
