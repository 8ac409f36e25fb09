"""Two processes at once on one run's folder: one trains, the other is refused, and nothing is mixed.

python benchmarks/faults/two_at_once.py [--pairs 10] [--out FILE]

Every second pair resumes a run that was stopped; the others begin one, with two seeds. Both processes of a pair are
forked when everything is imported, and wait for each other before they begin. A pair is

one      one process ends with 0, and the other with 2 and the one line that the folder is in use
late     the second says that the run is there or finished already: it came too late, and the pair is tried again
both     both trained
none     neither trained
mixed    the files are not those of a training alone, or something else was said
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path

import torch

import duet.training.run  # noqa: F401 - once, not in every process
from duet.cli import main as command

FLAGS = [
    *("--preset", "demo", "--encoder", "tiny", "--epochs", "2", "--subset", "64", "--batch-size", "32"),
    *("--projector", "16", "8", "--action-pairs", "0", "--no-calibrate"),
]
FILES = ("config.yaml", "metrics.csv", "model/config.json", "model/model.safetensors", "checkpoints/last.safetensors")
IN_USE = " is in use by "
TOO_LATE = ("is finished: its model is in", "holds a run already", "holds a run with another seed")


def run_at_once(folder: Path, *commands: list[str]) -> list[tuple[int, list[str]]]:
    """Run commands from one moment on; their exit codes and the lines that they said."""
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(len(commands))
    said = [folder / f"said{which}" for which in range(len(commands))]
    pairs = zip(commands, said, strict=True)
    children = [context.Process(target=run, args=(*pair, ready)) for pair in pairs]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [(child.exitcode, file.read_text().splitlines()) for child, file in zip(children, said, strict=True)]


def run(arguments: list[str], said: Path, ready: Barrier) -> None:
    """Run a command in this process, when the others are ready, and leave what it says in a file."""
    with said.open("w") as file, contextlib.redirect_stderr(file), contextlib.redirect_stdout(file):
        ready.wait()
        code = command(arguments)
    os._exit(code)


def contents(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in FILES if (run / name).exists()}


def one_pair(folder: Path, number: int) -> str:
    """What became of a pair: one, late, both, none or mixed."""
    shared, seeds = folder / "run", (2 * number, 2 * number + 1)
    commands = [["train", *FLAGS, "--seed", str(seed), "--out", str(shared)] for seed in seeds]
    resumed = number % 2 == 1
    if resumed:
        run_at_once(folder, commands[0])
        (shared / "model" / "config.json").unlink()  # as if it had been killed before its end
        commands = [["train", "--resume", str(shared)]] * 2
    did = [outcome(*ended) for ended in run_at_once(folder, *commands)]
    if did.count("trained") != 1:
        return "both" if "trained" in did else "none"
    seed = seeds[0 if resumed else did.index("trained")]
    alone = folder / "alone"
    run_at_once(folder, ["train", *FLAGS, "--seed", str(seed), "--out", str(alone)])
    if contents(shared) != contents(alone) or any(shared.rglob(".*")):
        return "mixed"
    return {"refused": "one", "late": "late"}.get(did[1 - did.index("trained")], "mixed")


def outcome(code: int, lines: list[str]) -> str:
    """What a process did, by its exit code and its lines: trained, refused, late, or failed."""
    if any(words in line for words in TOO_LATE for line in lines):
        return "late"
    if code == 2 and len(lines) == 1 and IN_USE in lines[0]:
        return "refused"
    return "failed" if code else "trained"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="how many [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/faults/two_at_once.json"), help="[%(default)s]")
    args = parser.parse_args()
    if not hasattr(os, "fork"):
        sys.exit("two_at_once.py: skipped, this system has no fork")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found: Counter[str] = Counter()
        for number in range(args.pairs):
            while (kind := one_pair(Path(tempfile.mkdtemp(dir=folder)), number)) == "late":
                found[kind] += 1
                print("not at the same moment; once more", flush=True)
            found[kind] += 1
            print(f"{number + 1}/{args.pairs} {kind}", flush=True)
    figures = {"pairs": args.pairs, **{kind: found[kind] for kind in ("one", "late", "both", "none", "mixed")}}
    print(json.dumps(figures))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
