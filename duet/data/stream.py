"""Large sets: decoded on the way, by worker processes."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..error import DuetError
from .cores import available_cores
from .decoding import Pixels, Unreadable, decode, quiet
from .images import Batch, Images
from .source import Records

MAX_WORKERS = 16
# So many unreadable images one after another are no accident.
MAX_REPLACED = 1000


class Decoded(NamedTuple):
    """One image on its way: where it is from, its pixels if it could be read, and what could not."""

    position: int
    pixels: Pixels | None
    failures: dict[str, str]


class StreamImages(Images):
    """Images read when a batch asks for them. A broken one is replaced by the next readable one, and noted."""

    storage = "stream"
    statistics_sample = 2_048

    def __init__(
        self,
        name: str,
        split: str,
        records: Records,
        indices: Tensor,
        shape: tuple[int, int, int],
        image_size: int | None,
        labels: Tensor | None = None,
        classes: tuple[str, ...] | None = None,
        workers: int | None = None,
    ) -> None:
        super().__init__(name, split, shape, labels, classes)
        self._decoder = _Decoder(records, indices.numpy(), shape, image_size)
        self._workers = min(MAX_WORKERS, available_cores()) if workers is None else workers

    def __len__(self) -> int:
        return len(self._decoder)

    def __getitem__(self, index: int) -> Tensor:
        decoded = self._decoder.decode_one(range(len(self))[index])
        if decoded.pixels is None:
            raise DuetError(f"{self.name}: " + "; ".join(": ".join(item) for item in decoded.failures.items()))
        return torch.from_numpy(decoded.pixels)

    def identities(self) -> Iterator[bytes]:
        return self._decoder.names()

    def _part(self, rows: Tensor, split: str) -> "StreamImages":
        decoder, labels = self._decoder, None if self.labels is None else self.labels[rows]
        indices = torch.from_numpy(decoder.indices)[rows]
        return StreamImages(
            *(self.name, split, decoder.records, indices, self.shape),
            *(decoder.image_size, labels, self.classes, self._workers),
        )

    def _fetch(self, batches: Iterable[Tensor], replace: bool) -> Iterator[Batch]:
        plan = [[(position, replace) for position in batch.tolist()] for batch in batches]
        loader = DataLoader(
            self._decoder,
            batch_sampler=plan,
            num_workers=min(self._workers, len(plan)),
            collate_fn=_collate,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # Otherwise every epoch would draw from the global one.
        )
        for number, (pixels, positions, failures) in enumerate(loader):
            self._note_failures(failures)
            if replace and failures and len(positions) < len(plan[number]):
                raise DuetError(f"{self.name}: {len(failures)} images in a row cannot be read: {self.skipped[-1]}")
            if pixels is not None:
                yield pixels, None if self.labels is None else self.labels[positions]


class _Decoder(Dataset[Decoded]):
    """What runs in the workers."""

    def __init__(
        self, records: Records, indices: NDArray[np.int64], shape: tuple[int, int, int], image_size: int | None
    ) -> None:
        self.records, self.indices, self._shape, self.image_size = records, indices, shape, image_size

    def __len__(self) -> int:
        return len(self.indices)

    def names(self) -> Iterator[bytes]:
        return (self.records.name(index).encode("utf-8", "backslashreplace") for index in self.indices.tolist())

    def __getitem__(self, request: tuple[int, bool]) -> Decoded:
        position, replace = request
        failures: dict[str, str] = {}
        tries = min(MAX_REPLACED, len(self)) if replace else 1
        for candidate in range(position, position + tries):
            decoded = self.decode_one(candidate % len(self))
            failures.update(decoded.failures)
            if decoded.pixels is not None:
                return decoded._replace(failures=failures)
        return Decoded(position, None, failures)

    def decode_one(self, position: int) -> Decoded:
        index = int(self.indices[position])
        try:
            with quiet():
                pixels = decode(self.records[index], self._shape[0], self.image_size)
            if pixels.shape != self._shape:
                _, height, width = pixels.shape
                raise Unreadable(f"{width}x{height}, unlike the others: choose one size with --image-size")
        except Unreadable as error:
            return Decoded(position, None, {self.records.name(index): str(error)})
        return Decoded(position, pixels, {})


def _collate(parts: list[Decoded]) -> tuple[Tensor | None, Tensor, dict[str, str]]:
    readable = [part for part in parts if part.pixels is not None]
    failures = {name: reason for part in parts for name, reason in part.failures.items()}
    positions = torch.tensor([part.position for part in readable], dtype=torch.int64)
    stacked = [part.pixels for part in readable if part.pixels is not None]
    return torch.from_numpy(np.stack(stacked)) if stacked else None, positions, failures
