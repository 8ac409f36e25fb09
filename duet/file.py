"""Files and folders that appear whole or not at all, and stay when the machine stops."""

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


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` when all went well, and vanishes otherwise."""
    if path.is_dir():
        raise DuetError(f"{path} is a folder; give a file's name")
    path.parent.mkdir(parents=True, exist_ok=True)
    # A folder of its own: the name inside may be as long as a name can be.
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=path.parent) as folder:
        partial = Path(folder) / path.name
        yield partial
        _settle(partial)
        os.replace(partial, path)
        _sync(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Where to write what becomes the folder `path`, in place of one that is there, when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=path.parent) as folder:
        partial, old = Path(folder) / path.name, Path(folder) / "old"
        partial.mkdir()
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                _settle(file)
        if path.exists():
            os.rename(path, old)
        os.rename(partial, path)
        _sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)


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


def _settle(file: Path) -> None:
    """Bring a finished file to the disk, and let others read it: libraries that write atomically make it private."""
    file.chmod(0o644)
    with open(file, "rb") as handle:
        os.fsync(handle.fileno())


def _sync(folder: Path) -> None:
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
