"""Two processes at once on one run's folder: one trains, the other is refused, and nothing is mixed.

python benchmarks/faults/two_at_once.py [--pairs 10] [--out FILE]

Every second pair resumes a run that was stopped; the others begin one, with two seeds. Both processes of a pair are
forked when everything is imported and wait for one moment. A pair is `one` where one of them ended with 0 and the other
with 2 and one line (a second that comes too late is tried again); `mixed` where the files are not those of a training
alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

import duet.training.run  # noqa: F401 - once, not in every process
from duet.cli import main as command

FLAGS = [
    *("--preset", "demo", "--encoder", "tiny", "--epochs", "2", "--subset", "64", "--batch-size", "32"),
    *("--projector", "16", "8", "--action-pairs", "0", "--no-calibrate"),
]
FILES = ("config.yaml", "metrics.csv", "model/config.json", "model/model.safetensors", "checkpoints/last.safetensors")
AHEAD = 0.2  # seconds until both may begin


def start(arguments: list[str], said: Path, moment: float) -> int:
    """The number of a process that runs a command at that moment and leaves what it says in a file."""
    child = os.fork()
    if child:
        return child
    heard = io.StringIO()
    with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(heard):
        time.sleep(max(0.0, moment - time.time()))
        code = command(arguments)
    said.write_text(heard.getvalue())
    os._exit(code)


def ended(children: list[int]) -> list[int]:
    """Their exit codes."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def contents(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in FILES if (run / name).exists()}


def one_pair(folder: Path, number: int) -> str:
    """What became of a pair: one, both, none, mixed, or late."""
    run, seeds = folder / f"run{number}", (2 * number, 2 * number + 1)
    commands = [["train", *FLAGS, "--seed", str(seed), "--out", str(run)] for seed in seeds]
    if number % 2:
        ended([start(commands[0], folder / "said", 0)])
        (run / "model" / "config.json").unlink()  # as if it had been killed before its end
        commands = [["train", "--resume", str(run)]] * 2
    said = [folder / f"said{number}-{which}" for which in (0, 1)]
    moment = time.time() + AHEAD
    codes = ended([start(command, file, moment) for command, file in zip(commands, said, strict=True)])
    if codes == [0, 0] and any("is finished: its model" in file.read_text() for file in said):
        return "late"  # the second came when the first was done, and found nothing to do
    if codes.count(0) != 1:
        return "both" if codes == [0, 0] else "none"
    lines = said[codes.index(2)].read_text().splitlines() if 2 in codes else []
    alone = folder / f"alone{number}"
    seed = seeds[0 if number % 2 else codes.index(0)]
    ended([start(["train", *FLAGS, "--seed", str(seed), "--out", str(alone)], folder / "said", 0)])
    left = [path.name for path in run.rglob(".*")]
    return "one" if contents(run) == contents(alone) and len(lines) == 1 and not left else "mixed"


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
                print("not at the same moment; once more", flush=True)
            found[kind] += 1
            print(f"{number + 1}/{args.pairs} {kind}", flush=True)
    figures = {"pairs": args.pairs, **{kind: found[kind] for kind in ("one", "both", "none", "mixed")}}
    print(json.dumps(figures))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
