"""Files turned upright: the rotation of each is estimated, and a corrected copy written where the model is sure."""

from __future__ import annotations

import csv
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..data.decoding import Unreadable
from ..error import DuetError
from ..file import whole_file
from ..groups import Rotation
from ..model import Encoder
from ..model.confidence import SURE
from ..representation import Axis
from .files import Found, Reader, find_files, shown, stored
from .rotation import save_turned

COLUMNS = ("path", "degrees", "probability", "sure")


class Oriented(NamedTuple):
    """How many images were read, turned (or sure enough for it), not sure, and of a kind that the model does not know.

    What is sure and still cannot be written again is in none of the last three.
    """

    readable: int
    turned: int
    unsure: int
    strange: int


class Rotations(NamedTuple):
    """Degrees from the model's upright, counter-clockwise in [-180, 180), the probability that each is right, whether
    the image is of a kind that the model knows, and whether both are enough to be sure: (B,) each."""

    degrees: Tensor
    probability: Tensor
    known: Tensor
    sure: Tensor


def orient_files(
    images: Sequence[str | os.PathLike[str]],
    encoder: Encoder,
    folder: Path | None = None,
    table: Path | None = None,
    sure: float = SURE,
    batch_size: int = 256,
) -> Oriented:
    """Write copies to `folder`, turned by minus the estimated angle where that is sure: of an image of a known kind,
    and right with a probability of `sure` or more. Write a row for every readable image to `table`.

    A model that is not calibrated cannot tell: with `sure` 0 it turns all, otherwise that is an error.
    """
    axis = rotation_axis(encoder)
    if folder is None and table is None:
        raise DuetError("say where to write: -o DIR for corrected copies, --csv FILE for the angles, or both")
    if not 0 <= sure <= 1:
        raise DuetError(f"--sure is a probability, from 0 to 1, not {sure:g}")
    if sure and (encoder.confidence is None or axis.name not in encoder.confidence.axes):
        raise DuetError(
            "this model cannot tell how sure it is: train it on 1,000 images or more without --no-calibrate, or give "
            "--sure 0 to turn every image"
        )
    files = list(find_files(images))
    targets = _targets(files, folder, table)
    reader, turned, unsure, strange = Reader(encoder, batch_size), 0, 0, 0
    with _open_csv(table) as rows:
        for batch in reader.batches(files, len(files), "orienting"):
            found = estimate_rotation(encoder, batch.features, sure)
            strange += int((~found.known).sum())
            unsure += int((found.known & ~found.sure).sum())
            for file, angle, probability, _, certain in zip(batch.files, *(p.tolist() for p in found), strict=True):
                if folder is not None:
                    turned += _copy(file.path, targets[file], angle if certain else None)
                else:
                    turned += certain
                if rows is not None:
                    rows.writerow([stored(file.path), f"{angle:.2f}", f"{probability:.4f}", str(certain).lower()])
    return Oriented(reader.readable, turned, unsure, strange)


def rotation_axis(encoder: Encoder) -> Axis:
    """The model's axis of rotation; one line says why there is none."""
    for axis in encoder.layout.axes:
        if isinstance(encoder.groups[axis.name], Rotation):
            if encoder.relative:
                raise DuetError(
                    "this model knows differences of angles only, and so no upright; use one that was "
                    "trained with --reference absolute"
                )
            return axis
    names = ", ".join(axis.name for axis in encoder.layout.axes) or "none"
    raise DuetError(f"this model cannot tell a rotation (its groups: {names}); it needs rot360 or rot4")


def estimate_rotation(encoder: Encoder, features: Tensor, sure: float = SURE) -> Rotations:
    """The rotations of images by their features: (B, D) -> (B,) each. A model of quarter turns gives the nearest.

    Of a model that is not calibrated the probability is NaN, all is known, and sure unless P(g|x) is flat.
    """
    axis = rotation_axis(encoder)
    group, reading = encoder.groups[axis.name], encoder.recover(encoder.representation(features), axis, sure)
    angle = reading.value - float(group.parameter(group.identity))
    if group.elements is not None:
        angle = (angle / 90).round() * 90
    degrees = torch.remainder(angle + 180, 360) - 180
    if reading.probability is None or reading.known is None or reading.sure is None:
        known = torch.ones_like(reading.unknown)
        return Rotations(degrees, torch.full_like(degrees, torch.nan), known, ~reading.unknown if sure else known)
    return Rotations(degrees, reading.probability, reading.known, reading.sure)


def _targets(files: list[Found], folder: Path | None, table: Path | None) -> dict[Found, Path]:
    """Where each copy goes. No original is written over, and no two copies go to one place."""
    originals = {file.path.resolve(): file.path for file in files}
    if table is not None and table.resolve() in originals:
        raise DuetError(f"{table} is one of the inputs; choose another --csv")
    if folder is None:
        return {}
    root = folder.resolve()
    for resolved, original in originals.items():
        if resolved.is_relative_to(root):
            raise DuetError(f"{shown(folder)} contains the input {shown(original)}; choose another folder")
    several = len({file.folder for file in files if file.folder is not None}) > 1
    targets: dict[Found, Path] = {}
    taken: dict[Path, Path] = {}
    for file in files:
        place = Path(file.path.name) if file.folder is None else file.path.relative_to(file.folder)
        if several and file.folder is not None:
            # Each folder keeps its own name, so that a/1.png and b/1.png stay apart.
            place = Path(file.folder.resolve().name) / place
        target = root / place
        if taken.setdefault(target, file.path).resolve() != file.path.resolve():
            raise DuetError(f"{shown(taken[target])} and {shown(file.path)} have one name; orient them separately")
        targets[file] = target
    return targets


def _copy(path: Path, target: Path, angle: float | None) -> bool:
    """Write the copy, turned upright if an angle is given; returns whether it was turned."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as partial:
        if angle is not None:
            try:
                save_turned(path, partial, -angle)
                return True
            except Unreadable as error:
                print(f"duet: {shown(path)} is copied as it is: {error}", file=sys.stderr)
        shutil.copyfile(path, partial)
    return False


@contextmanager
def _open_csv(path: Path | None) -> Iterator[Any]:
    if path is None:
        yield None
        return
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        yield rows
