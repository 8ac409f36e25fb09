"""Files that appear whole or not at all, and stay when the machine stops."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .error import DuetError

PARTIAL = ".partial-"
_UMASK = os.umask(0)
os.umask(_UMASK)


@contextmanager
def whole_file(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Where to write what becomes `path` when all went well, and vanishes otherwise.

    `mode`: who may do what with it; as the user's files are, where none is given.
    """
    if path.is_dir():
        raise DuetError(f"{path} is a folder; give a file's name")
    path.parent.mkdir(parents=True, exist_ok=True)
    # A folder of its own: the name inside may be as long as a name can be.
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=path.parent) as folder:
        partial = Path(folder) / path.name
        yield partial
        _settle(partial, 0o666 & ~_UMASK if mode is None else mode)
        os.replace(partial, path)
        sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing."""
    with whole_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, all of it or nothing."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, values: Any) -> None:
    """Write plain values as JSON, all of it or nothing."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n")


def _settle(file: Path, mode: int) -> None:
    """Bring a finished file to the disk, as open to others as it should be: some libraries make it private."""
    file.chmod(mode)
    with open(file, "rb") as handle:
        os.fsync(handle.fileno())


def sweep_partial(folder: Path) -> None:
    """Remove what a process that was killed left half written in a folder."""
    for left in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(left, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to the disk, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError:  # nor do some network file systems sync them
        pass
    finally:
        os.close(descriptor)
