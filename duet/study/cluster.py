"""Runs on a Ray cluster: one task a run, with the processors it asks for; what a lost node took is computed again."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..error import DuetError, first_line
from ..file import write_text
from ..installation import install_command
from .computation import RUNS, Failure, run_folder
from .local import Ended, Place, do_job, job_of
from .plan import Run
from .record import Record, record_of

Work = Callable[[dict[str, Any]], tuple[bytes, bytes]]
"""From a job to its record and what stays of its run, both as bytes."""
RETRIES = 3
"""How often a run is begun again after the node or the process that computed it was lost."""


def on_cluster(runs: Sequence[Run], place: Place, work: Work | None = None) -> Ended:
    """All runs as tasks of the cluster that `ray.init` finds (RAY_ADDRESS), or of this machine where there is none.

    `work` computes a run on a node: `do_on_node`, unless another does it in its place.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise DuetError(f"--engine ray needs more packages: {install_command('cluster')}") from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, configure_logging=False, include_dashboard=False)
    task: Any = ray.remote(work or do_on_node)
    found: Any = ray.nodes
    nodes = [node["Resources"] for node in found() if node["Alive"]]
    try:
        waiting: dict[Any, Run] = {}
        for run in runs:
            asked = {**resources(run, place, nodes), "max_retries": RETRIES}
            waiting[task.options(**asked).remote(job_of(run, place))] = run
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                run = waiting.pop(reference)
                try:
                    yield run, bring_back(ray.get(reference), run, place)
                except ray.exceptions.RayError as error:
                    yield run, Failure(f"the cluster lost it {RETRIES + 1} times: {first_line(error)}")
    finally:
        if ours:
            ray.shutdown()


def resources(run: Run, place: Place, nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What a run asks for: a GPU for each of its devices where a node has them, else the processors of a node.

    With `jobs` so many runs share a node's processors.
    """
    devices = run.experiment.devices
    if place.device != "cpu" and any(node.get("GPU", 0) >= devices for node in nodes):
        return {"num_cpus": devices, "num_gpus": devices}
    fewest = min((node["CPU"] for node in nodes if node.get("CPU")), default=1.0)
    return {"num_cpus": max(1.0, fewest // place.jobs), "num_gpus": 0}


def do_on_node(job: dict[str, Any]) -> tuple[bytes, bytes]:
    """Compute a run in a folder of the node's own; returns its record or why it has none, and what stays of it."""
    folder = Path(tempfile.mkdtemp(prefix="duet-study-"))
    try:
        found = do_job(job, folder)
        if isinstance(found, Failure):
            note = next((path.read_text() for path in (folder / "failed").glob("*.txt")), "")
            return json.dumps({"failed": found.why, "note": note}).encode(), b""
        return json.dumps(found.to_dict()).encode(), _packed(folder / RUNS / found.key)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bring_back(answer: tuple[bytes, bytes], run: Run, place: Place) -> Record | Failure:
    """Write here what a node has computed: first the run's files, then its record."""
    plain = json.loads(answer[0])
    note = place.out / "failed" / f"{run.key}.txt"
    if "failed" in plain:
        write_text(note, plain["note"])
        return Failure(str(plain["failed"]))
    record = record_of(plain, "the node's answer")
    if answer[1]:
        _unpack(answer[1], run_folder(place.out, run))
    record.save(place.out)
    note.unlink(missing_ok=True)
    return record


def _packed(folder: Path) -> bytes:
    """The files of a folder as a tar; nothing where there is none."""
    if not folder.is_dir():
        return b""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def _unpack(packed: bytes, folder: Path) -> None:
    """The files of a tar in a folder that appears whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as partial:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(Path(partial) / "run", filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(Path(partial) / "run", folder)
