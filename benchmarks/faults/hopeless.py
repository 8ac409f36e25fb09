"""Trainings that cannot work, and one that can: what each of them says, and what the watching costs.

python benchmarks/faults/hopeless.py [--epochs 3] [--out FILE]

Every trial is a command of its own: its exit code, and the lines on standard error. `watching` and `glances` are
shares of the time of training, in this process: the signs of a run that does not learn, and the held-out error that
the progress line shows. `same` says that the weights are those of a run without either.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console

from duet import Experiment, progress
from duet.training import bar, train
from duet.training.glance import Glance
from duet.training.watch import Watch

SMALL = {"subset": 1200, "projector": [32, 16], "action_pairs": 0, "batch_size": 64}
FLAGS = ["--preset", "demo", "--subset", "1200", "--projector", "32", "16", "--action-pairs", "0"]
TRIALS = {
    "batch larger than the set": ["--batch-size", "5000"],
    "learning rate of 100": ["--batch-size", "64", "--lr", "100"],
    "temperature of 1e-40": ["--batch-size", "64", "--temperature", "1e-40"],
    "lambda of 1e38": ["--batch-size", "64", "--weight", "1e38"],
    "lambda of 1e10": ["--batch-size", "64", "--weight", "1e10"],
    "images of 8 x 8": ["--batch-size", "64", "--image-size", "8"],
}


def try_command(flags: list[str], epochs: int, folder: Path) -> dict[str, Any]:
    """The exit code of a training, and what it said."""
    line = [sys.executable, "-m", "duet.cli", "train", *FLAGS, *flags, "--epochs", str(epochs), "--out", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True)
    return {"code": done.returncode, "lines": done.stderr.splitlines()}


def timed(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """The function, with the seconds that it takes added to a list."""

    def call(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            spent.append(time.perf_counter() - start)

    return call


def measure_cost(epochs: int, folder: Path) -> dict[str, Any]:
    """The shares of the time of a training that watching and glances take, on a terminal that nobody sees."""
    experiment = Experiment.preset("demo", **SMALL, epochs=epochs)
    train(experiment, folder / "quiet", quiet=True)
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    watching: list[float] = []
    glances: list[float] = []
    ended: list[float] = []

    def end(*_: Any) -> None:
        ended.append(time.perf_counter())

    begin = Glance.begin
    began: list[float] = []

    def begin_now(self: Glance) -> None:
        began.append(time.perf_counter())
        begin(self)

    def on_that(*columns: Any, **options: Any) -> Any:
        return progress.new_progress(*columns, **options, console=console)

    with (
        patch.object(bar, "new_progress", on_that),
        patch.object(Watch, "after_batch", timed(Watch.after_batch, watching)),
        patch.object(Watch, "end", end),
        patch.object(Glance, "_look", timed(Glance._look, glances)),
        patch.object(Glance, "begin", begin_now),
    ):
        train(experiment, folder / "shown")
    whole = ended[-1] - began[-1]
    weights = [(folder / name / "model" / "model.safetensors").read_bytes() for name in ("quiet", "shown")]
    return {
        "seconds": round(whole, 2),
        "watching": round(sum(watching) / whole, 5),
        "glances": round(sum(glances) / whole, 5),
        "looks": len(glances),
        "same": weights[0] == weights[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3, help="of every trial [%(default)s]")
    parser.add_argument("--only", choices=("trials", "cost"), help="one half of it")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.only != "cost":
            for trial, (title, flags) in enumerate(TRIALS.items()):
                figures[title] = try_command(flags, args.epochs, folder / str(trial))
        if args.only != "trials":
            figures["cost"] = measure_cost(args.epochs, folder)
    text = json.dumps(figures, indent=2)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
