"""Files replaced in place, so that every step can be taken back.

Below the folder lies `.duet-orient/`: the originals in numbered folders, one a run, and `journal.jsonl`. A file is
replaced in this order: the new file is written beside the old one; the journal names both; the original is kept (a
second name for the same bytes, or a copy where the disk has no such names); all of that is on the disk, and then the
new file takes the old one's place in one step. Whoever is killed at any moment leaves every path with an old or a new
file, whole, and the old one is found again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..error import DuetError, printable
from ..file import PARTIAL, sweep_partial, sync_folder, whole_file

FOLDER = ".duet-orient"
LINES = "journal.jsonl"


class Entry(NamedTuple):
    """A file that was to be replaced: where it is, where its original is kept, and the new file's digest."""

    path: Path
    kept: Path
    after: str


class Undone(NamedTuple):
    """How many files are as they were, and which were left alone, with the reason."""

    restored: int
    left: list[str]


class Journal:
    """Replaces files below `root` and keeps the originals."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = root / FOLDER
        self._run: Path | None = None
        self._lock = threading.Lock()

    def replace(self, path: Path, write: Callable[[Path], None]) -> Path:
        """Replace a file by what `write` makes; returns where the original is kept. Safe from several threads."""
        with whole_file(path, path.stat().st_mode & 0o7777) as partial:
            write(partial)
            place = path.relative_to(self.root)
            kept = self._begin() / place
            self._note({"path": str(place), "kept": str(kept.relative_to(self.root)), "after": digest(partial)})
            _keep(path, kept)
        return kept

    def _begin(self) -> Path:
        """This run's folder of originals, made when it is first needed."""
        with self._lock:
            if self._run is None:
                self._folder.mkdir(exist_ok=True)
                _cut_torn_line(self._folder / LINES)
                numbers = [int(part.name) for part in self._folder.iterdir() if part.name.isdecimal()]
                self._run = self._folder / str(max(numbers, default=0) + 1)
                self._run.mkdir()
                sync_folder(self._folder)
                sync_folder(self.root)
            return self._run

    def _note(self, entry: dict[str, str]) -> None:
        line = (json.dumps(entry) + "\n").encode()
        with self._lock, open(self._folder / LINES, "ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def undo(root: Path, only: Path | None = None) -> Undone:
    """Put every original back, the last one first; what was changed since stays, and its original too.

    With `only` that file alone. Stopped half way it can be called again.
    """
    restored, left = set(), []
    for entry in reversed(read_journal(root)):
        if (only is not None and entry.path != only) or not entry.kept.exists():
            continue  # never replaced, or taken back already
        if not entry.path.exists():
            left.append(f"{printable(entry.path)} is not there any more; its original: {printable(entry.kept)}")
        elif entry.path.samefile(entry.kept) or digest(entry.path) == digest(entry.kept):
            entry.kept.unlink()
        elif digest(entry.path) == entry.after:
            _put_back(entry)
            restored.add(entry.path)
        else:
            left.append(f"{printable(entry.path)} was changed since; its original: {printable(entry.kept)}")
    if not left and not any(entry.kept.exists() for entry in read_journal(root)):
        forget(root)
    return Undone(len(restored), left)


def journal_of(file: Path) -> Path:
    """The folder whose journal may name a file: the nearest that has one, of those that it lies in."""
    return next((folder for folder in file.parents if (folder / FOLDER).is_dir()), file.parent)


def forget(root: Path) -> int:
    """Delete the originals and the journal: nothing can be taken back any more. Returns how many these were."""
    kept = sum(entry.kept.exists() for entry in read_journal(root))
    for folder in (root / FOLDER).iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    shutil.rmtree(root / FOLDER)  # the journal last: until then what is left can be taken back
    for folder_name, folders, _ in os.walk(root):
        if any(name.startswith(PARTIAL) for name in folders):
            sweep_partial(Path(folder_name))
    return kept


def read_journal(root: Path) -> list[Entry]:
    """What was noted, oldest first; a last line that was not finished counts for nothing."""
    lines = root / FOLDER / LINES
    if not lines.is_file():
        raise DuetError(f"nothing to take back in {root}: no {FOLDER} there; name what --in-place was given")
    return list(_entries(root, lines))


def _entries(root: Path, lines: Path) -> Iterator[Entry]:
    for line in lines.read_bytes().split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
            path, kept, after = Path(entry["path"]), Path(entry["kept"]), str(entry["after"])
            if path.is_absolute() or ".." in path.parts or kept.parts[:1] != (FOLDER,) or ".." in kept.parts:
                raise ValueError("a journal names files below its own folder only")
            yield Entry(root / path, root / kept, after)
        except (ValueError, KeyError, TypeError):
            raise DuetError(f"{lines} is damaged; the originals are in the folders beside it") from None


def digest(path: Path) -> str:
    """A file's SHA-256."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def _keep(path: Path, kept: Path) -> None:
    fresh = [folder for folder in kept.parents if not folder.is_dir()]
    kept.parent.mkdir(parents=True, exist_ok=True)
    for folder in fresh:
        sync_folder(folder.parent)
    try:
        os.link(path, kept)
    except OSError:  # another disk, or one without second names
        with whole_file(kept, path.stat().st_mode & 0o7777) as partial:
            shutil.copy2(path, partial)
    sync_folder(kept.parent)


def _put_back(entry: Entry) -> None:
    try:
        os.replace(entry.kept, entry.path)
    except OSError:  # another disk
        with whole_file(entry.path, entry.kept.stat().st_mode & 0o7777) as partial:
            shutil.copy2(entry.kept, partial)
        entry.kept.unlink()
    sync_folder(entry.path.parent)


def _cut_torn_line(lines: Path) -> None:
    """Remove what a process that was killed left of a line: its file was not replaced."""
    if lines.is_file():
        content = lines.read_bytes()
        os.truncate(lines, content.rfind(b"\n") + 1)
