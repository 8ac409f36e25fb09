"""Where oriented files go: to copies, in place, or nowhere."""

from __future__ import annotations

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
    """Whether a file stands upright now, and where its original is."""

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
    """Writes copies. What is not turned, or upright already, is copied byte by byte."""

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
        return Outcome(angle is not None, file.path)


class InPlace:
    """Replaces files that are turned, with a journal in every folder that was given."""

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
            return Outcome(True, journal.replace(file.path, lambda new: self._save(file.path, new, -angle)))
        except Unreadable as error:
            print(f"duet: {printable(file.path)} stays as it is: {error}", file=sys.stderr)
            return Outcome(False, file.path)
