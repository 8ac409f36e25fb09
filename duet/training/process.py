"""Which of a run's processes this is, and the folder that they share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..error import DuetError
from ..lock import locked

SHARED = "DUET_RUN"
"""Lightning starts further processes with this environment and the same command line."""
LOCK = ".lock"


def rank() -> int:
    """The rank of this process, as torchrun or SLURM tell it; from Lightning's own signs, 0 for the first alone."""
    told = os.environ.get("RANK") or os.environ.get("SLURM_PROCID")
    return int(told) if told else sum(int(os.environ.get(name, 0)) for name in ("NODE_RANK", "LOCAL_RANK"))


def choose_folder(out: str | os.PathLike[str] | None, name: str, nodes: int = 1) -> Path:
    """The run's folder: `out`, or one below runs/ that is free, chosen once for all processes of a run."""
    if rank() > 0 and SHARED in os.environ:
        return Path(os.environ[SHARED])
    outside = "RANK" in os.environ or int(os.environ.get("SLURM_NTASKS", 1)) > 1 or nodes > 1
    if out is None and outside:
        raise DuetError("processes that are started from outside need --out, so that all of them use one folder")
    run = free_folder(Path("runs") / name) if out is None else Path(out)
    os.environ[SHARED] = str(run)
    return run


def free_folder(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, ... that is not taken."""
    taken, number = folder, 1
    while taken.exists():
        number += 1
        taken = folder.with_name(f"{folder.name}-{number}")
    return taken


@contextmanager
def alone_in(run: Path) -> Iterator[bool]:
    """Hold a run's folder for this process and those of its run; tells whether the folder is new.

    A new folder in which nothing was left vanishes again, and so do those that were made for it.
    """
    if rank() > 0:  # the first process holds it for all
        yield False
        return
    # What a process leaves that is killed before it has begun is no run yet.
    fresh = not run.exists() or (run.is_dir() and [left.name for left in run.iterdir()] == [LOCK])
    made = [run, *(folder for folder in run.parents if not folder.exists())]  # the innermost first
    try:
        with locked(run / LOCK):
            yield fresh
    finally:
        if fresh:
            with suppress(OSError):  # there is something in it
                for folder in made:
                    folder.rmdir()


def clear_folder(run: Path) -> None:
    """Remove all that is in a run's folder but its lock."""
    for left in run.iterdir():
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        elif left.name != LOCK:
            left.unlink(missing_ok=True)
