"""Files brought to one common angle: copies, a table of angles, and the mean image before and after."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..data.decoding import quiet
from ..error import DuetError, printable
from ..file import whole_file
from ..groups import Rotation
from ..model import Encoder
from ..model.confidence import SURE
from .alignment import TURNS, Alignment, align, find_turning_group, pixel_encoder
from .destination import check_apart, check_report, plan_copies
from .files import Found, Reader, find_files
from .mean_image import MeanImages, draw_means, mean_images
from .orientation import STDOUT, open_rows
from .output import Copies, Nowhere, Output
from .rotation import save_turned

COLUMNS = ("path", "degrees", "probability", "sure")
PICTURE = "mean.png"
"""The picture of the means, in the folder of the copies."""


class AlignedFiles(NamedTuple):
    """How many images were read, and how many of them are surely right; the means of every set; the folders merged.

    `merged` names the folders whose images were aligned as one set, if they came from more than one.
    """

    readable: int
    sure: int
    sets: list[MeanImages]
    picture: Path | None
    merged: tuple[str, ...] = ()

    @property
    def fall(self) -> float:
        """By which share the variance of the images around the mean of their set fell, over all sets."""
        before = sum(one.variance_before for one in self.sets)
        return 1 - sum(one.variance_after for one in self.sets) / before if before > 0 else 0.0


def align_files(
    images: Sequence[str | os.PathLike[str]],
    encoder: Encoder | None = None,
    folder: Path | None = None,
    table: Path | None = None,
    picture: Path | None = None,
    group: str | None = None,
    by_class: bool = False,
    sure: float = SURE,
    turns: int = TURNS,
    batch_size: int = 256,
    *,
    expand: bool = False,
) -> AlignedFiles:
    """Write copies to `folder`, each turned by minus its angle from the common one; a row for every readable image to
    `table`; the means before and after to `picture`, by default `folder`/mean.png. Without an encoder the images are
    aligned by their own pixels.

    All copies are turned: without an upright, no image stands better as it is. `sure` only marks those whose
    probability is that large. `by_class` makes a set of each sub-folder of one folder, or of each of several folders.
    `expand` makes copies larger, so that nothing is cut.
    """
    if folder is None and table is None and picture is None:
        raise DuetError("say where to write: -o DIR for turned copies, --csv FILE for the angles, or both")
    if not 0 <= sure <= 1:
        raise DuetError(f"--sure is a probability, from 0 to 1, not {sure:g}")
    encoder = pixel_encoder() if encoder is None else encoder
    turning = find_turning_group(encoder, group or _own_rotation(encoder))
    if not isinstance(turning, Rotation):
        raise DuetError(f"{turning.title or turning.name} is no rotation: files are turned by rot360 or rot4")
    files = list(find_files(images))
    if picture is None and folder is not None:
        picture = folder / PICTURE
    for flag, report in (("--csv", table), ("--picture", picture)):
        if report not in (None, STDOUT):
            check_report(report, flag, files)
    targets = {} if folder is None else plan_copies(files, folder)
    check_apart({"--csv": None if table == STDOUT else table, "--picture": picture}, targets.values())
    reader = Reader(encoder, batch_size)
    read, parts = [], []
    for found, pixels in reader.pictures(files, len(files), "reading"):
        read += found
        parts.append(pixels)
    pixels = _one_size(parts)
    names = _classes(read, [Path(given) for given in images])
    folders = tuple(sorted({name for name in names if name}))
    merged = () if by_class or len(folders) < 2 else folders
    if merged:
        print(
            f"duet: {len(merged)} folders are aligned as one set; --by-class aligns each folder separately",
            file=sys.stderr,
        )
    if not by_class:
        names = [""] * len(read)
    alignment = align(pixels, encoder, turning, names, turns=turns, batch_size=batch_size)
    output = Nowhere() if folder is None else Copies(targets, partial(save_turned, expand=expand))
    _write(read, alignment, output, table, sure)
    sets = _means(pixels, alignment, names)
    if picture is not None:
        with whole_file(picture) as whole:
            draw_means(sets).save(whole, "PNG")
    return AlignedFiles(len(read), int((alignment.probability >= sure).sum()), sets, picture, merged)


def _own_rotation(encoder: Encoder) -> str:
    """The rotation that the model was trained with, if it was; any encoder can be aligned by."""
    return next((name for name, known in encoder.groups.items() if isinstance(known, Rotation)), "rot360")


def _write(files: list[Found], alignment: Alignment, output: Output, table: Path | None, sure: float) -> None:
    degrees = torch.remainder(alignment.value + 180, 360) - 180
    with quiet(), open_rows(table, COLUMNS) as rows:
        for file, angle, probability in zip(files, degrees.tolist(), alignment.probability.tolist(), strict=True):
            output.write((file, angle))
            if rows is not None:
                certain = str(probability >= sure).lower()
                rows.writerow([printable(file.path), f"{angle:.2f}", f"{probability:.4f}", certain])


def _means(pixels: Tensor, alignment: Alignment, names: list[str]) -> list[MeanImages]:
    found = []
    for name in sorted({name for name in names if name in alignment.coherence}):
        rows = torch.tensor([row for row, own in enumerate(names) if own == name])
        part = Alignment(alignment.group, alignment.by[rows], alignment.probability[rows], {})
        found.append(mean_images(pixels[rows], part, name))
    return found


def _classes(files: Sequence[Found], given: Sequence[Path]) -> list[str]:
    """A class for every file: the sub-folder of the one folder that was given; of several folders, the folder itself.

    Files that were given themselves take the name of the folder that they are in.
    """
    folders = list(dict.fromkeys(path for path in given if path.is_dir()))
    titles = {path: path.resolve().name for path in folders}
    if len(set(titles.values())) < len(titles):
        titles = {path: str(path) for path in folders}

    def name(file: Found) -> str:
        if file.folder is None:
            return printable(file.path.resolve().parent.name)
        if len(folders) > 1:
            return printable(titles[file.folder])
        parts = file.path.relative_to(file.folder).parts
        return printable(parts[0]) if len(parts) > 1 else ""

    return [name(file) for file in files]


def _one_size(parts: list[Tensor]) -> Tensor:
    if len({part.shape[1:] for part in parts}) > 1:
        raise DuetError("images of different sizes, and this model does not say which it takes: resize them")
    return torch.cat(parts)
