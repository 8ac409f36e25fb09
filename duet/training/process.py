"""Which of a run's processes this is, and the folder that they share."""

from __future__ import annotations

import os
from pathlib import Path

from ..error import DuetError

SHARED = "DUET_RUN"
"""Lightning starts further processes with this environment and the same command line."""


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
