"""Files turned upright where the model is sure: as copies in another folder, or in place."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..data.pool import Pool
from ..error import DuetError, printable
from ..file import whole_file
from ..model import Encoder
from ..model.confidence import SURE
from .angle import check_reading, estimate_rotation, reads_quarters
from .destination import check_apart, check_report, plan_copies
from .files import Broken, Found, Reader, find_files
from .output import Copies, InPlace, Nowhere, Output
from .rotation import save_turned
from .sheet import Case, Sheet
from .tag import save_tagged

COLUMNS = ("path", "degrees", "probability", "sure")
Write = Literal["pixels", "exif", "none"]
LEAST_TILT = 4.0
"""Degrees: tilts that are read as less are within the error of the reading, and not worth another encoding. Chosen for
photos-rot360 on scenes that were kept aside from its training: see the guide."""


class Oriented(NamedTuple):
    """How many images were read, turned (or sure enough for it), not sure, and of a kind that the model does not know.

    What is sure and still cannot be written again is in none of the last three. `unreadable` were left out; `broken`
    names the first of them. `standing` of those turned stood upright already.
    """

    readable: int
    turned: int
    unsure: int
    strange: int
    unreadable: int = 0
    broken: tuple[Broken, ...] = ()
    standing: int = 0


def orient_files(
    images: Sequence[str | os.PathLike[str]],
    encoder: Encoder,
    folder: Path | None = None,
    table: Path | None = None,
    sure: float = SURE,
    batch_size: int = 256,
    *,
    snap: bool = False,
    span: float | None = None,
    write: Write = "pixels",
    in_place: bool = False,
    sheet: Sheet | None = None,
    least: float | None = None,
    expand: bool = False,
) -> Oriented:
    """Write copies to `folder`, turned by minus the estimated angle where that is sure: of an image of a known kind,
    and right with a probability of `sure` or more. Write a row for every readable image to `table`.

    `snap` decides between quarter turns, `span` reads tilts of at most so many degrees. What is read as turned by less
    than `least` degrees counts as upright: by default LEAST_TILT with a `span`, else nothing. `write`: turn the pixels,
    with `expand` in an image that holds all of it, or set the orientation tag and touch no pixel. `in_place` replaces
    the files themselves; `journal.undo` takes it back. `sheet` is shown every image. A model that is not calibrated
    cannot tell what is sure: with `sure` 0 it turns all, otherwise that is an error.
    """
    check_reading(encoder, sure, snap, span)
    if write == "exif" and not reads_quarters(encoder, snap):
        raise DuetError("--write exif can only tell quarter turns: add --snap 90")
    check_outputs(folder, table, write, in_place, sheet is not None)
    if expand and write != "pixels":
        raise DuetError(f"--expand makes larger images, and --write {write} makes none: leave out one of them")
    if least is not None and not 0 <= least < 180:
        raise DuetError(f"--least is in degrees, from 0 to below 180, not {least:g}")
    least = (0.0 if span is None else LEAST_TILT) if least is None else least
    files = _once(find_files(images)) if in_place else list(find_files(images))
    if table is not None:
        check_report(table, "--csv", files)
    save = save_tagged if write == "exif" else partial(save_turned, expand=expand)
    output: Output = Nowhere()
    writes = in_place or folder is not None
    if in_place:
        output = InPlace(save)
    elif folder is not None:
        copies = plan_copies(files, folder)
        check_apart({"--csv": table}, copies.values())
        output = Copies(copies, save)
    reader, turned, standing, unsure, strange = Reader(encoder, batch_size), 0, 0, 0, 0
    with open_rows(table) as rows:
        for batch in reader.batches(files, len(files), "orienting"):
            found = estimate_rotation(encoder, batch.features, sure, snap, span)
            strange += int((~found.known).sum())
            unsure += int((found.known & ~found.sure).sum())
            angles, probabilities, known, certain = (part.tolist() for part in found)
            wanted = [angle if abs(angle) >= least else 0.0 for angle in angles]
            pairs = [(file, by if own else None) for file, by, own in zip(batch.files, wanted, certain, strict=True)]
            outcomes = Pool().map(output.write, pairs) if writes else map(output.write, pairs)
            for file, angle, by, probability, kind, own, outcome in zip(
                batch.files, angles, wanted, probabilities, known, certain, outcomes, strict=True
            ):
                turned += outcome.turned
                standing += outcome.turned and by == 0
                if rows is not None:
                    rows.writerow([printable(file.path), f"{angle:.2f}", f"{probability:.4f}", str(own).lower()])
                if sheet is not None:
                    sheet.add(Case(file.path, outcome.original, by, probability, outcome.turned, kind))
    broken = tuple(reader.broken)
    return Oriented(reader.readable, turned, unsure, strange, reader.unreadable, broken, standing)


def check_outputs(folder: Path | None, table: Path | None, write: Write, in_place: bool, sheet: bool) -> None:
    """One line says what is missing, too much or against another."""
    if in_place and folder is not None:
        raise DuetError("--in-place replaces the files themselves: leave out -o")
    if write == "none" and (in_place or folder is not None):
        raise DuetError(f"--write none writes no images: leave out {'--in-place' if in_place else '-o'}")
    if folder is None and table is None and not sheet and not in_place:
        raise DuetError("say where to write: -o DIR for corrected copies, --csv FILE for the angles, or both")


def _once(files: Iterator[Found]) -> list[Found]:
    """Every file once, however often it was named: none is turned twice."""
    found: dict[Path, Found] = {}
    for file in files:
        key = file.path.resolve()
        if key not in found or found[key].path.is_symlink():
            found[key] = file
    return list(found.values())


@contextmanager
def open_rows(path: Path | None) -> Iterator[Any]:
    if path is None:
        yield None
        return
    with whole_file(path) as whole, whole.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        yield rows
