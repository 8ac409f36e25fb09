"""One run of a study: trained, evaluated, and written down. What a run that was killed has left is gone on with."""

from __future__ import annotations

import math
import platform
import shutil
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import torch

from .. import __version__
from ..error import DuetError, first_line
from ..evaluation import Result, evaluate
from ..evaluation.suite import open_context
from ..file import write_text
from ..lock import Busy, locked
from ..training.experiment import from_dict
from ..training.loop import Stopped
from ..training.machine import begun_on
from ..training.recipe import read_yaml
from ..training.run import train
from ..training.trained_images import images_of_run
from .images import check_images
from .plan import Run
from .record import FOLDER, LATER, Record, begun, finished


@dataclass(frozen=True)
class Failure:
    """Why a run has no record, in one line."""

    why: str


KEEP = ("none", "model", "all")
"""What stays of a finished run beside its record: nothing, its model, or its checkpoints too."""
RUNS = "runs"
BASELINES = "baselines"
LONGEST = 400
"""Characters of why a run failed."""


def attempt(run: Run, out: Path, device: str = "auto", keep: str = "model", wait: bool = True) -> Record | Failure:
    """A run, whatever becomes of it: its record, or why there is none, with all of it in OUT/failed/KEY.txt.

    Raises Busy if another process has it and we do not wait.
    """
    try:
        with locked(out / ".locks" / run.hash, wait, name=f"the run {run.name}"):
            return _attempt(run, out, device, keep)
    except Busy as busy:
        if not wait:
            raise
        return Failure(str(busy))  # of a process on another machine


def _attempt(run: Run, out: Path, device: str, keep: str) -> Record | Failure:
    note = out / "failed" / f"{run.key}.txt"
    record = finished(out, run)
    if record is not None:
        tidy(run, out, keep)
        return record
    try:
        record = compute(run, out, device, keep)
    except Stopped:
        raise KeyboardInterrupt from None
    except Exception as error:  # whatever a run dies of, the others can be computed
        write_text(note, traceback.format_exc())
        return Failure(first_line(error, longest=LONGEST))
    note.unlink(missing_ok=True)
    return record


def compute(run: Run, out: Path, device: str = "auto", keep: str = "model") -> Record:
    """Train and evaluate a run in OUT/runs/KEY and write OUT/results/KEY.json."""
    check_keep(keep)
    folder = run_folder(out, run)
    whole = not folder.exists()
    before = begun(out, run)
    if before is not None:
        check_images(before.images, run, f"its record {FOLDER}/{run.key}.json")
    if is_trained(out, run):
        check_images(images_of_run(folder), run, f"its model in {RUNS}/{run.key}")
    began = time.monotonic()
    if not is_trained(out, run):
        train(run.experiment, folder, device=device, quiet=True)
    trained = time.monotonic()
    context = open_context(folder, sizes=run.effort, device=device, transfer=run.transfer)
    # Baselines do not depend on the method: the next run of the group finds them measured.
    own = run.experiment
    baselines = out / BASELINES / "-".join([PurePath(own.data).name, *own.group]) if run.baselines else False
    results = evaluate(context, run.evaluate, out=folder / "results", progress=False, rivals=baselines)
    seconds = {"train": round(trained - began, 2), "evaluate": round(time.monotonic() - trained, 2)}
    record = replace(
        record_run(run, results, seconds, whole),
        machine=begun_on(folder),
        resolved=resolved_in(folder, run),
        images=images_of_run(folder),
    )
    if before is not None:  # its seconds of training are those that count
        both = {**before.seconds, LATER: round(sum(seconds.values()), 2)}
        record = replace(record.joined(before), seconds=both, whole=before.whole)
    record.save(out)
    tidy(run, out, keep)
    return record


def record_run(run: Run, results: Mapping[str, Result], seconds: dict[str, float], whole: bool) -> Record:
    """What is kept of results: scalars and their intervals, beside the settings."""
    scalars: dict[str, float | None] = {}
    intervals: dict[str, list[float]] = {}
    baselines: dict[str, dict[str, float | None]] = {}
    for name, result in results.items():
        scalars |= _finite(name, result.scalars)
        for baseline, scores in result.rivals.items():
            baselines[baseline] = baselines.get(baseline, {}) | _finite(name, scores.scalars)
        for key, ends in result.intervals.items():
            if all(map(math.isfinite, ends)):
                intervals[f"{name}/{key}"] = [float(end) for end in ends]
    return Record(
        *(run.name, run.hash, dict(run.labels), run.experiment.to_dict(), list(run.evaluate), run.effort, scalars),
        intervals=intervals,
        seconds=seconds,
        whole=whole,
        versions={"duet": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
        baselines=baselines,
        beside_baselines=list(run.evaluate) if run.baselines else [],
    )


def resolved_in(folder: Path, run: Run) -> dict[str, Any]:
    """The settings that a run's config.yaml says otherwise than the study, such as what `auto` became."""
    try:
        config = read_yaml(folder / "config.yaml")
        said = from_dict(config).to_dict()
    except DuetError:
        return {}
    asked = run.experiment.to_dict()
    return {key: said[key] for key in config if said[key] != asked[key]}


def _finite(evaluation: str, scalars: Mapping[str, float]) -> dict[str, float | None]:
    """EVALUATION/SCALAR -> number; JSON knows no NaN."""
    return {f"{evaluation}/{key}": float(x) if math.isfinite(x) else None for key, x in scalars.items()}


def tidy(run: Run, out: Path, keep: str) -> None:
    """Remove what should not stay of a finished run."""
    folder = run_folder(out, run)
    if keep == "none":
        shutil.rmtree(folder, ignore_errors=True)
    elif keep == "model":
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def run_folder(out: Path, run: Run) -> Path:
    """Where a run is computed."""
    return out / RUNS / run.key


def is_trained(out: Path, run: Run) -> bool:
    """Whether its model is there: what is left is to be measured."""
    return (run_folder(out, run) / "model" / "config.json").exists()


def check_keep(keep: Any) -> None:
    """Refuse another word than those of KEEP."""
    if keep not in KEEP:
        raise DuetError(f"--keep is one of {', '.join(KEEP)}, not {keep!r}")
