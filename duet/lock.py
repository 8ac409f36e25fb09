"""One folder, one process: a lock that names its holder, and that the system drops when its holder dies."""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .error import DuetError

try:
    import fcntl as system
except ModuleNotFoundError:  # Windows has none; there the file itself is the lock
    system = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

POLL = 0.2
"""Seconds between two looks at a lock that we wait for."""
LONGEST = 1000
"""Bytes that are read of a lock."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_held: set[int] = set()


class Busy(DuetError):
    """Another process has the lock."""


@dataclass(frozen=True)
class Holder:
    """Who has a lock. `boot` tells one start of a machine from others: containers of a machine share it."""

    pid: int
    host: str
    boot: str

    @staticmethod
    def here() -> Holder:
        """This process."""
        return Holder(os.getpid(), platform.node(), _BOOT.read_text().strip() if _BOOT.exists() else "")

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def on_machine_of(self, other: Holder) -> bool:
        """Whether both are processes of one machine."""
        return self.host == other.host or (self.boot == other.boot != "")

    def runs(self) -> bool:
        """Whether a process of this machine still runs, as far as its number tells."""
        if system is None or self.boot != Holder.here().boot:
            return system is None  # Windows cannot ask without ending it
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:  # it is another user's
            return True
        return True


class _Elsewhere(Busy):
    """The holder is on another machine."""


@contextmanager
def locked(path: Path, wait: bool = False, name: str | None = None) -> Iterator[None]:
    """Hold the lock of a file, which is there as long as it is held; Busy where another process has it.

    With `wait` it is waited for, unless the holder is on another machine: nobody here knows whether it still runs.
    `name` is what the lock is of, in words; its folder otherwise.
    """
    name = name or str(path.parent)
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle, inode = _take(path, name)
            break
        except FileNotFoundError:  # whoever had it has removed it meanwhile
            continue
        except Busy as busy:
            if not wait or isinstance(busy, _Elsewhere):
                raise
            time.sleep(POLL)
    try:
        yield
    finally:
        _release(path, handle, inode)


def _take(path: Path, name: str) -> tuple[int | None, int]:
    """The handle that holds the lock, None where the system has no locks; and which file it is."""
    handle, new = _open(path)
    try:
        alone = _system_lock(handle)
        before, me = _read(path), Holder.here()
        if before is None and not new:
            time.sleep(POLL)  # made a moment ago, perhaps, where the system's lock does not reach: let it be written
            before = _read(path)
        if alone is False:
            raise Busy(_refusal(name, before))
        inode = os.fstat(handle).st_ino
        if path.stat().st_ino != inode:
            raise FileNotFoundError(path)
        if before is not None:
            if not before.on_machine_of(me):
                raise _Elsewhere(f"{name} is in use by {before}; if it has ended, remove {path}")
            if alone is None and before.runs():
                raise Busy(f"{_refusal(name, before)}; if it has ended, remove {path}")
            log.warning("taking over the lock of %s: process %d, which held it, has ended", name, before.pid)
        _write(handle, path, me)
    except BaseException:
        os.close(handle)
        raise
    if alone is None:
        os.close(handle)
        return None, inode
    _held.add(handle)
    return handle, inode


def _open(path: Path) -> tuple[int, bool]:
    """The file, and whether it is new: making it is what network file systems do for one process only."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, os.O_RDWR), False


def _system_lock(handle: int) -> bool | None:
    """Whether we have the system's lock of a file; None where it has none for this file."""
    lock: Any = system
    if lock is None:
        return None
    try:
        lock.flock(handle, lock.LOCK_EX | lock.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have none
        return None
    return True


def _release(path: Path, handle: int | None, inode: int) -> None:
    if handle is not None and handle not in _held:
        return  # a child of the holder, which has closed it
    with suppress(OSError):
        if path.stat().st_ino == inode:
            path.unlink()
    if handle is not None:
        _held.discard(handle)
        os.close(handle)


def _refusal(name: str, holder: Holder | None) -> str:
    who = "another process" if holder is None else f"process {holder.pid}"
    return f"{name} is in use by {who}; wait for it, stop it, or take another folder"


def _read(path: Path) -> Holder | None:
    """Who is named in a lock; None where nobody is."""
    with path.open("rb") as file:
        text = file.read(LONGEST)
    try:
        plain = json.loads(text)
        host = "".join(letter for letter in str(plain["host"]) if letter.isprintable())
        return Holder(int(plain["pid"]), host, str(plain["boot"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _write(handle: int, path: Path, holder: Holder) -> None:
    try:
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(asdict(holder)).encode())
        os.fsync(handle)
    except OSError:  # a full disk: what names nobody is of no use
        path.unlink()
        raise


def _let_go() -> None:
    """A child has no part in the locks of its parent: a worker that outlives it would hold them."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
