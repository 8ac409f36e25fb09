"""A study as command lines, one a run, for a scheduler of one's own."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..training.experiment import Experiment
from .computation import run_folder
from .plan import Run, Study


def command_lines(study: Study, out: Path) -> Iterator[str]:
    """One line a run: train or go on, then evaluate. `duet study run` afterwards finds all of it done."""
    for run in study.runs:
        folder = shlex.quote(str(run_folder(out, run)))
        train = shlex.join(["duet", "train", *flags(run), "--out"]) + f" {folder}"
        plugins = shlex.join([word for name in run.experiment.plugins for word in ("--plugin", name)])
        again = " ".join(filter(None, [f"duet train --resume {folder}", plugins]))
        others = ["--transfer", *run.transfer] if run.transfer else []
        wanted = shlex.join(["--only", *run.evaluate, "--sizes", run.effort, *others])
        evaluate = " ".join(
            filter(None, [f"duet evaluate {folder} {wanted}", "" if run.baselines else "--no-rivals", plugins])
        )
        yield f"if [ -e {folder}/config.yaml ]; then {again}; else {train}; fi && {evaluate}"


def flags(run: Run) -> list[str]:
    """The settings that are not the default, as flags of `duet train`."""
    plain, words = Experiment().to_dict(), list[str]()
    for key, value in run.experiment.to_dict().items():
        flag = f"--{key.replace('_', '-')}"
        if key == "plugins":
            words += [word for name in value for word in ("--plugin", name)]
        elif key == "options":
            words += [word for name, own in value.items() for word in ("--option", f"{name}={own}")]
        elif key in ("method", "group", "data", "seed") or value != plain[key]:
            words += _words(flag, value)
    return words


def _words(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [flag, *(str(part) for part in (value if isinstance(value, list) else [value]))]
