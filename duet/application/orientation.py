"""Files turned upright where the model is sure: as copies in another folder, or in place."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from torch import Tensor

from ..data.pool import Pool
from ..error import DuetError, printable
from ..file import whole_file
from ..model import Encoder
from .angle import (
    SURE_ANGLE,
    SURE_QUARTER,
    Rotations,
    check_reading,
    estimate_rotation,
    judge_improvement,
)
from .destination import check_apart, check_report, plan_copies
from .files import Broken, Found, Reader, find_files
from .output import Copies, InPlace, Nowhere, Output, Save
from .rotation import save_quarter, save_turned
from .sheet import Case, Sheet
from .tag import save_tagged

COLUMNS = ("path", "degrees", "probability", "sure", "result")
STDOUT = Path("-")
"""As the name of a table: standard output."""
Write = Literal["auto", "pixels", "exif", "none"]
Result = Literal["rotated", "upright", "unsure", "unfamiliar", "failed"]
ENOUGH, LEAST_SHARE = 20, 0.25
"""Of so many images or more, a model that fits them is sure of so large a share."""
LEVEL = 0.05
"""Degrees that count as none."""
LEAST_TILT = 4.0
"""Degrees: tilts that are read as less are within the error of the reading, and not worth another encoding. Chosen for
photos-rot360 on scenes that were kept aside from its training: see the guide."""


class Oriented(NamedTuple):
    """How many images were read, rotated (or sure enough for it), upright already, and unsure.

    `strange`: of a kind that the model does not know. `failed`: to be rotated, but the file cannot be written again.
    Every readable image is in exactly one of the five. `unreadable` were left out; `broken` names the first of them.
    """

    readable: int
    rotated: int
    upright: int
    unsure: int
    strange: int
    failed: int = 0
    unreadable: int = 0
    broken: tuple[Broken, ...] = ()

    @property
    def foreign(self) -> bool:
        """Whether the images as a whole seem to be of a kind that the model does not know: it is sure of too few."""
        sure = self.rotated + self.upright + self.failed
        return self.readable >= ENOUGH and sure < LEAST_SHARE * self.readable

    def words(self, done: bool = True) -> str:
        """The counts in words: what was rotated or, if nothing is `done` yet, what is to be."""
        rest = (
            (self.unsure, "unsure"),
            (self.strange, "of a kind that the model does not know"),
            (self.failed, "that cannot be written again"),
            (self.unreadable, "unreadable"),
        )
        parts = [f"{self.rotated} {'rotated' if done else 'to rotate'}", f"{self.upright} already upright"]
        return ", ".join([*parts, *(f"{count} {what}" for count, what in rest if count)])


def orient_files(
    images: Sequence[str | os.PathLike[str]],
    encoder: Encoder,
    folder: Path | None = None,
    table: Path | None = None,
    sure: float | None = None,
    batch_size: int = 256,
    *,
    any_angle: bool = False,
    span: float | None = None,
    write: Write = "auto",
    in_place: bool = False,
    sheet: Sheet | None = None,
    least: float | None = None,
    expand: bool = False,
) -> Oriented:
    """Write copies to `folder`, turned by minus the estimated angle where that is sure. Write a row for every readable
    image to `table`. Without either, and without `in_place`, count what would be done.

    Angles are quarter turns, sure where the probability that they are right is `sure` or more (SURE_QUARTER). With
    `any_angle` they are free, and sure where the probability that the remaining tilt is smaller than the present one is
    `sure` or more (SURE_ANGLE); `span` reads tilts of at most so many degrees. An image that is read as turned by less
    than `least` degrees stays as it is: LEAST_TILT of free angles. No image of a kind that the model does not know is
    turned. A model that is not calibrated cannot tell what is sure: with `sure` 0 it turns all, otherwise that is an
    error.

    `write`: "auto" changes no pixel where quarter turns allow it, "pixels" turns them, with `expand` in an image that
    holds all of it, "exif" sets the orientation tag. `in_place` replaces the files themselves; `journal.undo` takes it
    back. `sheet` is shown every image.
    """
    any_angle = any_angle or span is not None
    quarters = not any_angle
    if sure is None:
        sure = SURE_QUARTER if quarters else SURE_ANGLE
    check_reading(encoder, sure, not any_angle, span)
    if write == "exif" and not quarters:
        raise DuetError("--write exif can only tell quarter turns: leave out --any-angle")
    check_outputs(folder, write, in_place)
    if expand and (write in ("exif", "none") or quarters):
        why = f"--write {write} makes none" if write in ("exif", "none") else "a quarter turn cuts nothing"
        raise DuetError(f"--expand makes larger images, and {why}: leave it out")
    if least is not None and not 0 <= least < 180:
        raise DuetError(f"--least is in degrees, from 0 to below 180, not {least:g}")
    least = (0.0 if quarters else LEAST_TILT) if least is None else least
    files = _once(find_files(images)) if in_place else list(find_files(images))
    if table not in (None, STDOUT):
        check_report(table, "--csv", files)
    save: Save = partial(save_turned, expand=expand)
    if quarters and write != "pixels":
        save = save_tagged if write == "exif" else save_quarter
    output: Output = Nowhere()
    writes = in_place or folder is not None
    if in_place:
        output = InPlace(save)
    elif folder is not None:
        copies = plan_copies(files, folder)
        check_apart({"--csv": None if table == STDOUT else table}, copies.values())
        output = Copies(copies, save)
    reader, results = Reader(encoder, batch_size), Counter[Result]()
    with open_rows(table, COLUMNS) as rows:
        for batch in reader.batches(files, len(files), "orienting"):
            found = estimate_rotation(encoder, batch.features, sure, snap=not any_angle, span=span)
            level = found.sure & (found.degrees.abs() < max(least, LEVEL))
            if not quarters and sure:
                judged = judge_improvement(encoder, batch.features, found, sure, span)
                probability = found.probability.where(level, judged.probability)
                found = judged._replace(probability=probability)
            wanted = _wanted(found, level)
            pairs = list(zip(batch.files, wanted, strict=True))
            outcomes = Pool().map(output.write, pairs) if writes else map(output.write, pairs)
            angles, probabilities, known, _ = (part.tolist() for part in found)
            for file, angle, by, probability, kind, outcome in zip(
                batch.files, angles, wanted, probabilities, known, outcomes, strict=True
            ):
                result = _result(by, kind, outcome.turned)
                results[result] += 1
                if rows is not None:
                    certain = str(by is not None).lower()
                    rows.writerow([printable(file.path), f"{angle:.2f}", f"{probability:.4f}", certain, result])
                if sheet is not None:
                    shown = 0.0 if result == "upright" else angle
                    sheet.add(Case(file.path, outcome.original, shown, probability, outcome.turned, kind))
    return Oriented(
        *(reader.readable, results["rotated"], results["upright"], results["unsure"], results["unfamiliar"]),
        failed=results["failed"],
        unreadable=reader.unreadable,
        broken=tuple(reader.broken),
    )


def _wanted(found: Rotations, level: Tensor) -> list[float | None]:
    """By how many degrees every image is to be turned back: 0 where it is upright, None where that is not sure."""
    own = zip(found.degrees.tolist(), found.sure.tolist(), level.tolist(), strict=True)
    return [0.0 if flat else angle if certain else None for angle, certain, flat in own]


def _result(wanted: float | None, known: bool, written: bool) -> Result:
    if not known:
        return "unfamiliar"
    if wanted is None:
        return "unsure"
    if not wanted:
        return "upright"
    return "rotated" if written else "failed"


def check_outputs(folder: Path | None, write: Write, in_place: bool) -> None:
    """One line says what is against another."""
    if in_place and folder is not None:
        raise DuetError("--in-place replaces the files themselves: leave out -o")
    if write == "none" and (in_place or folder is not None):
        raise DuetError(f"--write none writes no images: leave out {'--in-place' if in_place else '-o'}")


def _once(files: Iterator[Found]) -> list[Found]:
    """Every file once, however often it was named: none is turned twice."""
    found: dict[Path, Found] = {}
    for file in files:
        key = file.path.resolve()
        if key not in found or found[key].path.is_symlink():
            found[key] = file
    return list(found.values())


@contextmanager
def open_rows(path: Path | None, columns: Sequence[str]) -> Iterator[Any]:
    """A table of comma-separated values, that of STDOUT on standard output; None without a path."""
    if path is None:
        yield None
        return
    if path == STDOUT:
        yield _begin(sys.stdout, columns)
        sys.stdout.flush()
        return
    with whole_file(path) as whole, whole.open("w", newline="", encoding="utf-8") as file:
        yield _begin(file, columns)


def _begin(file: TextIO, columns: Sequence[str]) -> Any:
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(columns)
    return rows
