"""Images of the reader's own on the page: before, after and how sure, as the contact sheet of orient shows them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..application.angle import errors_of, is_calibrated, reads_quarters, rotation_axis
from ..application.orientation import Oriented, orient_files
from ..application.sheet import Sheet
from ..error import DuetError, printable
from ..model import load
from .sheet import Pair, draw_pairs

LONGEST = 48
"""Images on the page, shared out over its runs: the page is to be looked through, and sent by mail."""
FEWEST = 6
"""Of each run, however many these are."""
AT_ONCE = 12
"""Are seen at once; the rest folds."""


class OwnImages(NamedTuple):
    """What one run's model makes of the images: its place among the runs, the count in words, the pictures.

    `broken` names the first of the files that cannot be read. Where the model cannot be asked, `words`
    says why, and there are no pictures.
    """

    place: int
    words: str
    pairs: Sequence[Pair] = ()
    unreadable: int = 0
    broken: Sequence[str] = ()


def show_images(images: Sequence[str | os.PathLike[str]], runs: Sequence[Path], device: str) -> list[OwnImages]:
    """The images as every run's model would turn them, the least sure first; images that nobody can read are an error.

    Nothing is written to them or beside them.
    """
    longest = max(LONGEST // max(1, len(runs)), FEWEST)
    return [_show(images, run, place, longest, device) for place, run in enumerate(runs)] if images else []


def _show(images: Sequence[str | os.PathLike[str]], run: Path, place: int, longest: int, device: str) -> OwnImages:
    try:
        encoder = load(_home(run), device)
    except DuetError as error:
        # Not on the page: it may tell where on a disk the run lies.
        print(f"duet: no pictures of {printable(run)}: {error}", file=sys.stderr)
        return OwnImages(place, "No pictures: the model of this run cannot be loaded.")
    try:
        rotation_axis(encoder)
    except DuetError as error:
        return OwnImages(place, f"No pictures: {error}.")
    sheet, calibrated = Sheet(longest), is_calibrated(encoder)
    any_angle = not reads_quarters(encoder, snap=False) and (not calibrated or errors_of(encoder) is not None)
    sure = None if calibrated else 0
    done = orient_files(images, encoder, sure=sure, any_angle=any_angle, write="none", sheet=sheet)
    folders = [Path(image) for image in images]
    pairs = draw_pairs(sheet, lambda path: _name(path, folders))
    words = f"{_count(done, calibrated)}. {_order(calibrated, len(pairs), done.readable)}"
    broken = [f"{_name(path, folders)}: {reason}" for path, reason in done.broken]
    return OwnImages(place, words, pairs, done.unreadable, broken)


def _home(run: Path) -> Path:
    """The folder with the model. Results of other images stand two folders below it, in RUN/results/NAME."""
    has_model = any((run / place).exists() for place in ("model", "config.json"))
    above = run.resolve().parent
    return above.parent if not has_model and above.name == "results" else run


def _count(done: Oriented, calibrated: bool) -> str:
    """How many there are, how many are sure, and how many are skipped."""
    parts = [f"{done.readable} {'image' if done.readable == 1 else 'images'}"]
    if calibrated:
        parts += [f"{done.rotated} to rotate", f"{done.upright} upright", f"{done.unsure} not sure"]
        parts += [f"{done.strange} of a kind that the model does not know"] if done.strange else []
    return ", ".join(parts) + (f"; {done.unreadable} skipped that cannot be read" if done.unreadable else "")


def _order(calibrated: bool, pictures: int, readable: int) -> str:
    """Which of them are shown, and how."""
    how = "each before, and after as the model would turn it"
    if not calibrated:
        which = "All" if pictures == readable else f"The first {pictures}"
        return f"{which} are shown, {how}. How sure it is cannot be told: it is not calibrated."
    which = "All are shown, the least sure first" if pictures == readable else f"The {pictures} least sure are shown"
    return f"{which}, {how}. What duet orient would leave alone is pale."


def _name(path: Path, folders: Sequence[Path]) -> str:
    """A file's name below the folder that was given: where that lies is nobody's business."""
    for folder in folders:
        if folder != path and path.is_relative_to(folder):
            return printable(path.relative_to(folder))
    return printable(path.name)
