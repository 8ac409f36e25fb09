"""Runs on this machine: one after another in this process, or several at a time in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..error import DuetError
from ..interruption import stopped_as_by_ctrl_c
from ..lock import Busy
from ..plugin import import_plugin
from ..progress import without_bars
from ..training.experiment import from_dict
from .computation import Failure, attempt
from .plan import Run
from .record import Record, finished

POLL = 0.2
"""Seconds between two looks at the processes."""
STOPPING = 30.0
"""Seconds that a process has to write its checkpoint when the study is stopped."""


@dataclass(frozen=True)
class Place:
    """Where runs are computed and what stays of them."""

    out: Path
    device: str = "auto"
    keep: str = "model"
    jobs: int = 1
    plugins: tuple[str, ...] = ()


Ended = Iterator[tuple[Run, Record | Failure]]


def in_turn(runs: Sequence[Run], place: Place) -> Ended:
    """One after another; those that another process has taken come last."""
    waiting: list[Run] = []
    with without_bars():
        for run in runs:
            try:
                yield run, attempt(run, place.out, place.device, place.keep, wait=False)
            except Busy:
                waiting.append(run)
        for run in waiting:
            yield run, attempt(run, place.out, place.device, place.keep)


def side_by_side(runs: Sequence[Run], place: Place) -> Ended:
    """Several at a time, each in a process with its share of the threads."""
    queue, going = deque(runs), list[_Going]()
    with stopped_as_by_ctrl_c():
        try:
            while queue or going:
                while queue and len(going) < place.jobs:
                    going.append(_begin(queue.popleft(), place))
                ended = [one for one in going if one.process.poll() is not None]
                for one in ended:
                    going.remove(one)
                    yield one.run, one.outcome(place)
                if not ended:
                    time.sleep(POLL)
        finally:
            _stop([one.process for one in going])


@dataclass(frozen=True)
class _Going:
    """A run in its process, and what it says: a file never makes it wait."""

    run: Run
    process: subprocess.Popen[str]
    said: IO[str]

    def outcome(self, place: Place) -> Record | Failure:
        """What the process has left; its last line where it has left nothing."""
        with self.said:
            self.said.seek(0)
            lines = self.said.read().strip().splitlines()
        code = self.process.returncode
        record = finished(place.out, self.run)
        if record is not None:
            return record
        if code < 0:
            return Failure(f"its process was killed by signal {-code}")
        return Failure(lines[-1] if lines else f"its process ended with code {code}")


def _begin(run: Run, place: Place) -> _Going:
    said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed when the process has ended
    threads = str(max(1, (os.cpu_count() or 1) // place.jobs))
    shared = {name: os.environ.get(name, threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "duet.study.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
        text=True,
        env={**os.environ, **shared},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({**job_of(run, place), "out": str(place.out)}))
    process.stdin.close()
    return _Going(run, process, said)


def job_of(run: Run, place: Place) -> dict[str, Any]:
    """A run as plain values, for another process."""
    return {
        "labels": run.labels,
        "settings": run.experiment.to_dict(),
        "evaluate": list(run.evaluate),
        "effort": run.effort,
        "transfer": list(run.transfer),
        "baselines": run.baselines,
        "device": place.device,
        "keep": place.keep,
        "plugins": list(place.plugins),
    }


def do_job(job: dict[str, Any], out: Path) -> Record | Failure:
    """Compute what `job_of` has described. The modules that it names are those that the user typed."""
    for name in job["plugins"]:
        import_plugin(name)
    measured = (tuple(job["evaluate"]), job["effort"], tuple(job["transfer"]), job["baselines"])
    run = Run(job["labels"], from_dict(job["settings"]), *measured)
    with without_bars():
        return attempt(run, out, job["device"], job["keep"])


def _stop(processes: list[subprocess.Popen[str]]) -> None:
    """Ask processes to write a checkpoint and leave; those that do not are ended."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            process.kill()


def check_jobs(jobs: int) -> None:
    """Refuse fewer than one at a time."""
    if jobs < 1:
        raise DuetError(f"--jobs starts at 1; it is {jobs}")
