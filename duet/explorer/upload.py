"""The page's own folder: what it shows, and what was dropped on it, which goes after use and with the page."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..interruption import undisturbed
from ..lock import Busy, locked

PREFIX = "duet-explore-"
LOCK, FILES = "lock", "files"
UNUSED = 60.0
"""Seconds after which a file that nobody asked to be read is removed."""


class Uploads:
    """The files of a folder: those that the page shows stay, all others were sent by somebody."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shown: frozenset[str] = frozenset()

    def keep(self) -> None:
        """Everything that is there now belongs to the page."""
        self._shown = frozenset(str(path) for path in self.folder.rglob("*") if path.is_file())

    def shows(self, path: str) -> bool:
        """Is this one of the page's own files?"""
        return _real(path) in self._shown

    def holds(self, path: str) -> bool:
        """Is this a file that somebody sent?"""
        real = _real(path)
        return real not in self._shown and Path(real).is_relative_to(self.folder) and Path(real).is_file()

    def forget(self, path: str) -> None:
        """Delete a file that was sent."""
        if self.holds(path):
            _remove(Path(_real(path)), self.folder)

    def sweep(self, age: float = UNUSED) -> None:
        """Delete what was sent so many seconds ago and never used."""
        for folder, _, names in os.walk(self.folder):  # which bears that what it has seen is gone
            for path in (Path(folder, name) for name in names):
                with suppress(OSError):
                    if str(path) not in self._shown and time.time() - path.stat().st_mtime > age:
                        _remove(path, self.folder)


@contextmanager
def upload_folder() -> Iterator[Path]:
    """A private folder that is gone afterwards; what an explorer that was killed left behind goes first."""
    _sweep_left_over()
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    # It is found by its name only once it is locked, so that nobody takes it for left over.
    folder = Path(os.path.realpath(made.with_name(made.name[1:])))
    try:
        with locked(made / LOCK, wait=False):
            made.rename(folder)
            (folder / FILES).mkdir()
            yield folder / FILES
    finally:
        with undisturbed():
            for path in (made, folder):
                shutil.rmtree(path, ignore_errors=True)


def _sweep_left_over() -> None:
    """Remove the folders of this user's explorers that no longer live: the system dropped their locks."""
    if os.name == "nt":  # there are no locks to tell by
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, Busy):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not (folder / LOCK).is_file():
                continue
            with locked(folder / LOCK, wait=False):
                shutil.rmtree(folder, ignore_errors=True)


def _real(path: str) -> str:
    """Where a path truly leads; nowhere for what is no path."""
    try:
        return os.path.realpath(path)
    except (ValueError, OSError):
        return ""


def _remove(file: Path, folder: Path) -> None:
    """Delete a file, and the folder that was made for it."""
    file.unlink(missing_ok=True)
    if file.parent != folder:
        with suppress(OSError):  # another file is in it
            file.parent.rmdir()
