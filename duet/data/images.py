"""Images ready for training: the same batches from memory or from a stream."""

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from ..error import DuetError, printable
from .order import count_batches, epoch_batches, epoch_order

log = logging.getLogger(__name__)

Batch: TypeAlias = "tuple[Tensor, Tensor | None]"
SHOWN = 5
BATCH = 512
FINGERPRINT = 256  # images that stand for a set
LONGEST = 40  # characters of a name that are shown


class Images(ABC):
    """N images as uint8 (C, H, W), their labels (N,) or None (-1: unlabelled), the names of the classes or None."""

    storage: ClassVar[Literal["memory", "stream"]]
    statistics_sample: ClassVar[int]

    def __init__(
        self,
        name: str,
        split: str,
        shape: tuple[int, int, int],
        labels: Tensor | None,
        classes: tuple[str, ...] | None,
    ) -> None:
        self.name, self.split, self.shape = name, split, shape
        self.labels = labels
        # Folders of strangers may have any name; these are printed, drawn and stored.
        self.classes = None if classes is None else tuple(map(printable, classes))
        self.held_out: int | None = None
        """Images of the same source that are left for tests; None where these are a part of their own, or unknown."""
        self._failures: dict[str, str] = {}
        self._statistics: tuple[Tensor, Tensor] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Tensor:
        """One image, uint8 (C, H, W)."""

    def __repr__(self) -> str:
        # The end of a long path tells more than its beginning.
        name = self.name if len(self.name) <= LONGEST else "..." + self.name[3 - LONGEST :]
        shape = "x".join(map(str, self.shape))
        classes = "no labels" if self.labels is None else f"{self.num_classes} classes"
        return f"{type(self).__name__}({name!r}, {self.split!r}, {len(self)} x {shape}, {classes})"

    @abstractmethod
    def _fetch(self, batches: Iterable[Tensor], replace: bool) -> Iterator[Batch]:
        """Images and labels of every batch of indices; an unreadable image is replaced by the next one, or left out."""

    @abstractmethod
    def identities(self) -> Iterator[bytes]:
        """What tells every image from the others, wherever it stands: its name in the source, else its pixels."""

    @abstractmethod
    def _part(self, rows: Tensor, split: str) -> "Images":
        """The images of these rows alone, without a copy of their pixels."""

    def part(self, rows: Tensor, split: str | None = None) -> "Images":
        """Some of the images (n,) as a set of their own; what cannot be read is noted for both."""
        found = self._part(rows, split or self.split)
        found._failures = self._failures
        return found

    @property
    def channels(self) -> int:
        return self.shape[0]

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 without labels."""
        if self.classes is not None:
            return len(self.classes)
        return 0 if self.labels is None or not len(self.labels) else int(self.labels.max()) + 1

    @property
    def skipped(self) -> tuple[str, ...]:
        """The images that could not be read so far, each with the reason, each in one line."""
        return tuple(_told(name, reason) for name, reason in self._failures.items())

    def batches_per_epoch(self, batch_size: int, world: int = 1, drop_last: bool = True) -> int:
        """Batches each of `world` processes sees in an epoch."""
        return count_batches(len(self), batch_size, world, drop_last)

    def batches(
        self,
        batch_size: int,
        seed: int,
        epoch: int,
        rank: int = 0,
        world: int = 1,
        drop_last: bool = True,
        start: int = 0,
    ) -> Iterator[Batch]:
        """Shuffled batches: uint8 (B, C, H, W) with labels (B,) or None; `start` skips batches without reading them."""
        # Not a generator itself: a wrong batch size is an error here, not at the first batch.
        indices = epoch_batches(
            len(self), batch_size, seed=seed, epoch=epoch, rank=rank, world=world, drop_last=drop_last, start=start
        )
        return self._fetch(indices, replace=True)

    def draw(self, count: int, seed: int) -> Iterator[Batch]:
        """Up to `count` images, drawn without replacement, in batches; a broken one is replaced by the next."""
        return self._fetch(torch.split(epoch_order(len(self), seed, epoch=0)[:count], BATCH), replace=True)

    def sample(self, count: int, seed: int) -> Tensor:
        """The pixels of `draw` in one tensor: (n, C, H, W)."""
        return torch.cat([pixels for pixels, _ in self.draw(count, seed)])

    def is_grey(self, sample: int = 64, seed: int = 0) -> bool:
        """Whether colour says nothing here: one channel, or equal channels in all of up to `sample` drawn images."""
        return self.channels == 1 or all(
            torch.equal(pixels, pixels[:, :1].expand_as(pixels)) for pixels, _ in self.draw(sample, seed)
        )

    def fingerprint(self) -> str:
        """A short hash of the labels and of images from all over the set, to tell this set from another."""
        digest = hashlib.sha256(repr((self.split, len(self), self.shape)).encode())
        if self.labels is not None:
            digest.update(self.labels.numpy().tobytes())
        rows = torch.linspace(0, len(self) - 1, min(FINGERPRINT, len(self))).long()
        for pixels, _ in self._fetch([rows], replace=True):
            digest.update(pixels.numpy().tobytes())
        return digest.hexdigest()[:16]

    def in_order(self, batch_size: int = BATCH) -> Iterator[Batch]:
        """Every readable image once, in the order of the source."""
        return self._fetch(torch.split(torch.arange(len(self)), batch_size), replace=False)

    def tensors(self) -> Batch:
        """All images (N, C, H, W) and labels (N,) or None, decoded into memory if they are not there yet."""
        parts = list(self.in_order())
        images = torch.cat([images for images, _ in parts])
        return images, None if self.labels is None else torch.cat([labels for _, labels in parts if labels is not None])

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (C,), (C,) of pixels in [0, 1]; of a bounded sample when there are many."""
        if self._statistics is None:
            sample = epoch_order(len(self), seed=0, epoch=0)[: self.statistics_sample].sort().values
            counts = torch.zeros(self.channels, 256, dtype=torch.float64)
            for images, _ in self._fetch(torch.split(sample, BATCH), replace=False):
                for channel in range(self.channels):
                    counts[channel] += torch.bincount(images[:, channel].flatten(), minlength=256)
            if not counts.any():
                raise DuetError(f"none of {len(sample)} sampled images of {self.name} can be read")
            # A histogram of 256 levels is exact and needs no float copy of the images.
            shares = counts / counts.sum(1, keepdim=True)
            levels = torch.arange(256, dtype=torch.float64) / 255
            mean = shares @ levels
            variance = (shares * (levels - mean[:, None]).square()).sum(1)
            # A constant channel is divided by one grey level, not by zero.
            self._statistics = mean.float(), variance.sqrt().clamp(min=1 / 255).float()
        mean, std = self._statistics
        return mean.clone(), std.clone()

    def _note_failures(self, failures: dict[str, str]) -> None:
        new = {name: reason for name, reason in failures.items() if name not in self._failures}
        if not new:
            return
        self._failures.update(new)
        shown = "; ".join(_told(name, reason) for name, reason in list(new.items())[:SHOWN])
        more = f"; and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
        log.warning("%s: %d unreadable image(s) left out: %s%s", self.name, len(self._failures), shown, more)


def _told(name: str, reason: str) -> str:
    return f"{printable(name)}: {printable(reason)}"
