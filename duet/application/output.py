"""Where oriented files go: to copies, in place, or nowhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from ..data.decoding import Unreadable
from ..error import printable
from ..file import whole_file
from .files import Found
from .journal import Journal

Save: TypeAlias = Callable[[Path, Path, float], None]
"""Writes the image of one file to another, turned counter-clockwise by so many degrees; Unreadable says why not."""
Wanted: TypeAlias = tuple[Found, float | None]
"""A file and its angle, None where it is to stay as it is."""


class Outcome(NamedTuple):
    """Whether the file is written as wanted (with Nowhere: would be), and where its original is."""

    turned: bool
    original: Path


class Output(Protocol):
    """Takes files, from several threads."""

    def write(self, wanted: Wanted) -> Outcome:
        """Write one file, turned back by its angle."""
        ...


class Nowhere:
    """Writes nothing: what is sure would be turned."""

    def write(self, wanted: Wanted) -> Outcome:
        """Tell what would be done."""
        file, angle = wanted
        return Outcome(angle is not None, file.path)


class Copies:
    """Writes copies, with the modification times of their originals. What is not turned, or upright already, is copied
    byte by byte."""

    def __init__(self, targets: dict[Found, Path], save: Save) -> None:
        self._targets, self._save = targets, save

    def write(self, wanted: Wanted) -> Outcome:
        """Write the copy."""
        file, angle = wanted
        with whole_file(self._targets[file]) as new:
            try:
                if angle:
                    self._save(file.path, new, -angle)
                else:
                    shutil.copyfile(file.path, new)
            except Unreadable as error:
                print(f"duet: {printable(file.path)} is copied as it is: {error}", file=sys.stderr)
                shutil.copyfile(file.path, new)
                angle = None
            keep_time(file.path, new)
        return Outcome(angle is not None, file.path)


class InPlace:
    """Replaces files that are turned, with a journal in every folder that was given; modification times stay."""

    def __init__(self, save: Save) -> None:
        self._save = save
        self._journals: dict[Path, Journal] = {}

    def write(self, wanted: Wanted) -> Outcome:
        """Replace the file if there is anything to turn."""
        file, angle = wanted
        if not angle:
            return Outcome(angle is not None, file.path)
        root = file.folder or file.path.parent
        journal = self._journals.setdefault(root, Journal(root))
        try:
            if file.path.is_symlink():
                raise Unreadable("it is a link; name the file itself")
            return Outcome(True, journal.replace(file.path, lambda new: self._turn(file.path, new, -angle)))
        except Unreadable as error:
            print(f"duet: {printable(file.path)} stays as it is: {error}", file=sys.stderr)
            return Outcome(False, file.path)

    def _turn(self, path: Path, new: Path, degrees: float) -> None:
        self._save(path, new, degrees)
        keep_time(path, new)


def keep_time(path: Path, copy: Path) -> None:
    """Give a copy the modification time of its original: photos are sorted by it."""
    times = path.stat()
    os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
