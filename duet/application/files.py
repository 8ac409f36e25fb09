"""Image files as a stream: found in a fixed order, decoded ahead, the unreadable ones named and left out."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..data.decoding import Pixels, Unreadable, is_colourful, quiet
from ..data.folder import SUFFIXES, image_paths
from ..data.input import read_pixels, stack_alike
from ..data.pool import Pool, in_parts
from ..error import DuetError, printable
from ..file import does_not_exist
from ..model import Encoder
from ..progress import track

log = logging.getLogger(__name__)

GLANCED = 16
"""Images that are looked at to tell whether they are in colour."""
NAMED = 20
"""Unreadable files that are remembered by their names; of more only the number."""
HEIC = (".heic", ".heif")
"""Read where pillow-heif is installed; otherwise named, with what to install."""


class Found(NamedTuple):
    """A file, and the folder that was given if it was found in one."""

    path: Path
    folder: Path | None


class Batch(NamedTuple):
    """Readable files and their features (n, D)."""

    files: list[Found]
    features: Tensor


class Broken(NamedTuple):
    """A file that cannot be read, and why."""

    path: Path
    reason: str


def find_files(arguments: Iterable[str | os.PathLike[str]]) -> Iterator[Found]:
    """Files as they are given, the images of folders in the order of their names; the same every time."""
    for argument in map(Path, arguments):
        if argument.is_dir():
            for name in image_paths(argument, (*SUFFIXES, *HEIC)):
                yield Found(argument / name, argument)
        elif argument.suffix or os.path.lexists(argument):
            yield Found(argument, None)
        else:
            raise DuetError(f"{does_not_exist(argument)}; give folders with images, or image files")


def warn_of_colour(encoder: Encoder, paths: Sequence[Path]) -> None:
    """Say that a model of grey images is given photos in colour, where most of the first ones are."""
    seen = paths[:GLANCED]
    if encoder.channels != 1 or not encoder.provenance or not seen:
        return
    colourful = sum(map(is_colourful, seen))
    if 2 * colourful > len(seen):
        name = encoder.provenance.get("name")
        log.warning(
            "%s takes grey images, and %d of the first %d here are in colour: it sees them in grey and may misread "
            "them; for photos take photos-rot360",
            f"the model {name}" if name else "this model",
            colourful,
            len(seen),
        )


def stored(path: Path) -> str:
    """A file's name as valid UTF-8, otherwise as it is: for tables that are not read line by line."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class Reader:
    """Batches of features of files. Unreadable files are named on standard error, and counted.

    `ahead`: large images of the next batch are decoded while the network computes; otherwise all cores decode, then
    all compute.
    """

    def __init__(self, encoder: Encoder, batch_size: int) -> None:
        if batch_size < 1:
            raise DuetError(f"--batch-size starts at 1, got {batch_size}")
        self.encoder, self.batch_size = encoder, batch_size
        self.ahead = encoder.device.type != "cpu"
        self.readable = self.unreadable = 0
        self.broken: list[Broken] = []
        self._held: list[str] = []
        self._shown = False  # whether a first image was looked at
        self._pool = Pool()

    def batches(self, files: Iterable[Found], total: int | None, label: str) -> Iterator[Batch]:
        """Features of all that can be read, in constant memory; an error when nothing can."""
        for found, images in self.pictures(files, total, label):
            yield Batch(found, self.encoder.features(images, self.batch_size))

    def pictures(self, files: Iterable[Found], total: int | None, label: str) -> Iterator[tuple[list[Found], Tensor]]:
        """The same with pixels (n, C, H, W) at the model's size."""
        with quiet():
            parts = self._decoded(files)
            for part in track(((len(part), part) for part in parts), total, label, unit="images"):
                good = [(file, pixels) for file, pixels in part if not isinstance(pixels, str)]
                bad = [Broken(file.path, reason) for file, reason in part if isinstance(reason, str)]
                self.readable, self.unreadable = self.readable + len(good), self.unreadable + len(bad)
                self.broken += bad[: NAMED - len(self.broken)]
                self._name([f"{printable(file)}: {reason}" for file, reason in bad])
                if good and not self._shown:
                    self._shown = True
                    warn_of_colour(self.encoder, [file.path for file, _ in good])
                if good:
                    yield [file for file, _ in good], stack_alike([torch.from_numpy(pixels) for _, pixels in good])
        self._close()

    def _decoded(self, files: Iterable[Found]) -> Iterator[list[tuple[Found, Pixels | str]]]:
        """Batches of decoded files, each with its pixels or the reason why there are none."""
        if self.ahead:
            yield from in_parts(self._pool.map(self.read, files, self.batch_size), self.batch_size)
            return
        for part in in_parts(files, self.batch_size):
            yield list(self._pool.map(self.read, part, len(part)))

    def read(self, file: Found) -> tuple[Found, Pixels | str]:
        """A file with its pixels at the model's size, or the reason why there are none."""
        try:
            return file, read_pixels(file.path, self.encoder.channels, self.encoder.image_size)
        except Unreadable as error:
            return file, str(error)

    def _name(self, bad: list[str]) -> None:
        # Held back until something is readable: where nothing is, one line says it all.
        self._held += bad
        if self.readable:
            for line in self._held:
                print(f"duet: cannot read {line}", file=sys.stderr)
            self._held.clear()

    def _close(self) -> None:
        if not self.readable:
            if not self._held:
                raise DuetError(
                    f"no images there: expected files, or folders of files that end in {' '.join(SUFFIXES)}"
                )
            what = "the image" if len(self._held) == 1 else f"any of the {len(self._held)} images; the first"
            raise DuetError(f"cannot read {what}: {self._held[0]}")
        if self.unreadable:
            count = self.readable + self.unreadable
            print(f"duet: {self.unreadable} of {count} files cannot be read and were left out", file=sys.stderr)
