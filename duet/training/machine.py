"""On what a run was begun: the same bytes come of the same number of threads, the same torch and kind of processor."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..data.cores import available_cores
from ..file import write_json

log = logging.getLogger(__name__)

FILE = "machine.json"
LONGEST = 10_000
"""Bytes that are read of it."""
MOST_KEYS = 20
LONGEST_TEXT = 40
THREADS = "OMP_NUM_THREADS"
"""Lightning chooses a number of threads for several processes, unless this names one."""


def this_machine() -> dict[str, Any]:
    """What decides how sums are rounded, beside the device: it is no part of an experiment, and in no hash."""
    return {"threads": torch.get_num_threads(), "torch": str(torch.__version__), "processor": platform.machine()}


def note_machine(run: Path, precision: str) -> None:
    """Write it into a run's folder once, when the run begins, with the precision that was chosen there."""
    if not (run / FILE).exists():
        write_json(run / FILE, {**this_machine(), "precision": precision})


@contextmanager
def as_begun(run: Path) -> Iterator[None]:
    """With as many threads as a run was begun with, where they can be had; where bytes may differ, one line says so."""
    began, here = begun_on(run), this_machine()
    threads = began.pop("threads", here["threads"])
    others = [f"{key} {value}, here {here[key]}" for key, value in began.items() if value != here.get(key, value)]
    possible = threads == here["threads"] or threads <= available_cores()
    if not possible:
        others.insert(0, f"threads {threads}, here {here['threads']}")
    if others:
        log.warning("%s was begun with %s: its bytes may be others than there", run, "; ".join(others))
    if not possible or threads == here["threads"]:
        yield
        return
    log.info("threads: %d, as when %s was begun, and not %d", threads, run, here["threads"])
    before = os.environ.get(THREADS)
    torch.set_num_threads(threads)
    os.environ[THREADS] = str(threads)
    try:
        yield
    finally:
        torch.set_num_threads(here["threads"])
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


def begun_on(run: Path) -> dict[str, Any]:
    """What a run says of where it was begun, long texts cut; nothing where it was begun before there was this file."""
    path = run / FILE
    if not path.exists():
        return {}
    try:
        with path.open("rb") as file:
            plain = json.loads(file.read(LONGEST))
        threads = plain["threads"]
        if type(threads) is not int or threads < 1:
            raise ValueError("an odd number of threads")
        known = {"threads": threads, **{key: str(plain[key])[:LONGEST_TEXT] for key in ("torch", "processor")}}
        others = [key for key in plain if key not in known and len(key) <= LONGEST_TEXT][:MOST_KEYS]
        return {**known, **{key: _bounded(plain[key]) for key in others}}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        log.warning("%s cannot be read: with how many threads the run was begun is not known", path)
        return {}


def _bounded(value: Any) -> bool | int | float | str:
    """A value as a record keeps it: a number or a short text."""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)[:LONGEST_TEXT]
