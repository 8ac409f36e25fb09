"""Files that appear whole or not at all, and stay when the machine stops."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .error import DuetError, did_you_mean

PARTIAL = ".partial-"
OURS = re.compile(re.escape(PARTIAL) + "[a-z0-9_]{8}")
"""How `tempfile` names a folder of that prefix."""
FULL = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}
"""What the system says where nothing more can be written: no space, a quota, a limit on files."""
SAID = re.compile(r"(?:os error|Os \{ code:) (\d+)")
"""How libraries that are written in Rust tell the system's number of an error."""
LARGEST_SETTINGS = 2**25
_UMASK = os.umask(0)
os.umask(_UMASK)


class NoSpace(DuetError):
    """The disk is full, or the user's share of it; nothing was changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"no space left to write {path}; free some and try again")


def from_home(path: str | os.PathLike[str]) -> Path:
    """A path whose ~ is the user's home; that of a user who is not there stays as it is typed."""
    return Path(os.path.expanduser(path))


def does_not_exist(path: str | os.PathLike[str]) -> str:
    """What to say of a path that leads nowhere: "fotos does not exist (did you mean 'photos'?)"."""
    folder, name = os.path.split(os.fspath(path).rstrip(os.sep))
    try:
        entries = os.listdir(from_home(folder or "."))
        # A folder is not mistyped as a file, nor the other way round.
        alike = [entry for entry in entries if bool(Path(entry).suffix) == bool(Path(name).suffix)]
        beside = {entry: os.path.join(folder, entry) for entry in alike}
    except (OSError, ValueError):  # there is no such folder either
        beside = {}
    return f"{os.fspath(path)} does not exist{did_you_mean(name, beside.keys(), beside)}"


def read_settings(path: Path) -> bytes:
    """All bytes of a small file that people write or that describes others; no pipe, no device, nothing huge."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise DuetError("it is not a regular file")
    if about.st_size > LARGEST_SETTINGS:
        raise DuetError(f"it is larger than {LARGEST_SETTINGS // 2**20} MiB, and no settings are")
    return path.read_bytes()


@contextmanager
def whole_file(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Where to write what becomes `path` when all went well, and vanishes otherwise.

    `mode`: who may do what with it; as the user's files are, where none is given.
    """
    with whole_files(path, mode=mode) as (partial,):
        yield partial


@contextmanager
def whole_files(*paths: Path, mode: int | None = None) -> Iterator[list[Path]]:
    """Where to write files that belong together: all are on the disk before the first takes its name, in this order."""
    for path in paths:
        if path.is_dir():
            raise DuetError(f"{path} is a folder; give a file's name")
    try:
        with ExitStack() as folders:
            partials = [_partial_of(path, folders) for path in paths]
            yield partials
            for partial in partials:
                _settle(partial, 0o666 & ~_UMASK if mode is None else mode)
            for partial, path in zip(partials, paths, strict=True):
                os.replace(partial, path)
            for parent in {path.parent for path in paths}:
                sync_folder(parent)
    except Exception as error:
        if is_full(error):
            raise NoSpace(paths[0]) from None
        raise


def _partial_of(path: Path, folders: ExitStack) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A folder of its own: no other process has its name, and the name inside may be as long as a name can be.
    folder = folders.enter_context(tempfile.TemporaryDirectory(prefix=PARTIAL, dir=path.parent))
    return Path(folder) / path.name


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, says that there is no space; some libraries say so in words only."""
    while error is not None:
        numbers = [error.errno] if isinstance(error, OSError) else SAID.findall(str(error)[-200:])
        if FULL & {int(number) for number in numbers if number is not None}:
            return True
        error = error.__cause__ or error.__context__
    return False


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing."""
    with whole_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, all of it or nothing."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, values: Any) -> None:
    """Write plain values as JSON, all of it or nothing."""
    write_text(path, as_json(values))


def as_json(values: Any) -> str:
    """Plain values as they stand in a file."""
    return json.dumps(values, indent=2, allow_nan=False) + "\n"


def _settle(file: Path, mode: int) -> None:
    """Bring a finished file to the disk, as open to others as it should be: some libraries make it private."""
    file.chmod(mode)
    with open(file, "rb") as handle:
        os.fsync(handle.fileno())


def sweep_partial(folder: Path) -> None:
    """Remove what a process that was killed left half written in a folder, and nothing of anybody else's."""
    for left in folder.glob(f"{PARTIAL}*"):
        if OURS.fullmatch(left.name):
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
