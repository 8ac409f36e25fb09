"""All runs of a study: what is finished is skipped, what fails does not stop the others, the time left is shown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from ..error import DuetError, did_you_mean
from ..progress import new_progress
from .computation import Failure, check_keep, is_trained, tidy
from .cost import expected_seconds, say_seconds, seconds_left
from .images import Looked, other_images, quiet_data
from .local import Ended, Place, check_jobs, in_turn, side_by_side
from .plan import Run, Study
from .record import LATER, Record, begun, readable_records

log = logging.getLogger(__name__)

Engine = Callable[[Sequence[Run], Place], Ended]
"""Computes runs and yields each with its record or why it has none, in any order."""


@dataclass
class Outcome:
    """What became of the runs of a study, by their names."""

    done: dict[str, Record] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # name -> why

    @property
    def code(self) -> int:
        """The exit code: 1 if a run is missing."""
        return int(bool(self.failed))


class Unfinished(Exception):
    """Some runs of a study failed; the others are finished."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        whys = "; ".join(f"{name}: {why}" for name, why in list(outcome.failed.items())[:3])
        super().__init__(f"{len(outcome.failed)} of {len(outcome.failed) + len(outcome.done)} runs failed: {whys}")


def run_study(
    study: Study,
    out: Path,
    *,
    device: str = "auto",
    keep: str = "model",
    jobs: int = 1,
    engine: str | Engine = "local",
    plugins: Sequence[str] = (),
) -> Outcome:
    """Compute every run that is not finished in OUT/runs, and write OUT/results/KEY.json of each.

    `jobs`: how many at a time on this machine. `engine`: local, ray, or a function of your own.
    `plugins`: modules that a process of its own must import first.
    """
    check_keep(keep)
    check_jobs(jobs)
    place = Place(out, device, keep, jobs, tuple(plugins))
    start = find_engine(engine, jobs)
    outcome, waiting, look = Outcome(), list[Run](), Looked()
    for run in study.runs:
        record = begun(out, run)
        if record is not None and (why := other_images(record, run, look)):
            outcome.failed[run.name] = why  # also where an evaluation is missing: it would be of other weights
        elif record is None or not record.answers(run):
            waiting.append(run)
        else:
            tidy(run, out, keep)
            outcome.done[run.name] = record
    if not waiting:
        return outcome
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    trained = {run.key for run in waiting if is_trained(out, run)}
    with quiet_data(), new_progress(*columns, transient=True) as progress:
        left = _say_left(waiting, outcome, jobs, trained)
        bar = progress.add_task(study.name, total=len(study.runs), completed=len(study.runs) - len(waiting), left=left)
        for run, found in start(tuple(waiting), place):
            waiting.remove(run)
            if isinstance(found, Failure):
                outcome.failed[run.name] = found.why
                told = f"failed: {found.why}"
            else:
                outcome.done[run.name] = found
                told = say_seconds(found.seconds.get(LATER) or sum(found.seconds.values()))
            left = _say_left(waiting, outcome, jobs, trained)
            ended = len(outcome.done) + len(outcome.failed)
            progress.update(bar, completed=ended, left=left)
            log.info("%d/%d %s, %s%s", ended, len(study.runs), run.name, told, f"; {left}" if waiting else "")
    return outcome


def find_engine(engine: str | Engine, jobs: int = 1) -> Engine:
    """An engine by its name; a function as it is."""
    if callable(engine):
        return engine
    if engine == "local":
        return in_turn if jobs == 1 else side_by_side
    if engine == "ray":
        from .cluster import on_cluster

        return on_cluster
    raise DuetError(f"no engine {engine!r}{did_you_mean(engine, ('local', 'ray'))}; there are local and ray")


def preview(study: Study, out: Path, jobs: int = 1) -> str:
    """Every run with its record, or with the time that training and measuring will take; nothing is computed.

    Times are those of records in the folder, also of other studies.
    """
    look = Looked()
    there = {run.key: begun(out, run) for run in study.runs}
    others = {run.key for run in study.runs if (record := there[run.key]) and other_images(record, run, look)}
    done = {run.key for run in study.runs if (record := there[run.key]) and record.answers(run)} - others
    records = readable_records(out)
    trained = {run.key for run in study.runs if is_trained(out, run)}
    width = max(len(run.name) for run in study.runs)
    lines = []
    for run in study.runs:
        if run.key in others:
            told = "has a record of other images: will not be computed here"
        elif run.key in done:
            told = "finished"
        else:
            what = "measure" if run.key in trained else "train"
            told = f"{what}: {say_seconds(expected_seconds(run, records, run.key in trained))}"
        lines.append(f"{run.name:<{width}}  {run.hash}  {run.experiment.epochs} epochs  {told}")
    waiting = [run for run in study.runs if run.key not in done | others]
    to_measure = sum(run.key in trained for run in waiting)
    counts = {
        "finished": len(done),
        "with records of other images": len(others),
        "to train": len(waiting) - to_measure,
        "to measure": to_measure,
    }
    said = [f"{count} {what}" for what, count in counts.items() if count or what == "finished"]
    left = seconds_left(waiting, records, jobs, trained)
    total = ": nothing to compute" if not waiting else f": {say_seconds(left)}"
    total = ", the time is known once one is finished" if left is None else total
    return "\n".join([*lines, f"{len(study.runs)} runs, {', '.join(said)}{total}"])


def _say_left(waiting: Sequence[Run], outcome: Outcome, jobs: int, trained: Collection[str]) -> str:
    left = seconds_left(waiting, list(outcome.done.values()), jobs, trained)
    return "" if left is None else f"about {say_seconds(left)} left"
