"""SIGKILLs of train, evaluate and embed at random moments: do all end with the same bytes?

python benchmarks/faults/kills.py [--rounds 5] [--kills 5] [--seed 0] [--out FILE]

Each command runs once in peace. Then, every round, it is killed up to so many times at moments drawn over the time that
it took, started again each time as a user would (--resume for a run that has begun), and ends in peace; what it leaves
is compared byte by byte.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from process import digests, run, run_killed

sys.path.append(str(Path(__file__).parents[1]))
from measure import write

FLAGS = [
    *("--preset", "demo", "--encoder", "tiny", "--epochs", "6", "--subset", "640", "--batch-size", "32"),
    *("--projector", "32", "16", "--action-pairs", "200", "--checkpoint-every", "7"),
]


class Trial:
    """A command, what it leaves, and how to begin anew."""

    def __init__(
        self, words: Callable[[], list[str]], left: Callable[[], list[Path]], clear: Callable[[], None]
    ) -> None:
        self.words, self.left, self.clear = words, left, clear

    def measure(self, rounds: int, kills: int, drawn: random.Random) -> dict[str, Any]:
        """Rounds that ended with the same bytes as in peace, of how many, with how many kills."""
        self.clear()
        seconds = run(self.words())
        right, same, killed = digests(self.left()), 0, 0
        for _ in range(rounds):
            self.clear()
            killed += run_killed(self.words, kills, seconds, drawn)
            same += digests(self.left()) == right
        return {"rounds": rounds, "same": same, "kills": killed, "files": len(right), "seconds": seconds}


def trials(folder: Path) -> dict[str, Trial]:
    """Train, evaluate and embed in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    trained, table, photos = folder / "run", folder / "table.parquet", folder / "photos"
    photos.mkdir()
    noise = np.random.default_rng(0)
    for number in range(3000):
        Image.fromarray(noise.integers(0, 256, (28, 28), dtype=np.uint8)).save(photos / f"{number:04}.png")

    def train() -> list[str]:
        begun = (trained / "config.yaml").exists()
        return ["train", "--resume", str(trained)] if begun else ["train", *FLAGS, "--out", str(trained)]

    measured = ["evaluate", str(trained), "--only", "classification", "recovery", "--sizes", "quick"]
    embedded = ["embed", str(photos), "-o", str(table), "--model", str(trained)]
    return {
        "train": Trial(
            train,
            lambda: [*trained.glob("model/*"), trained / "config.yaml", trained / "metrics.csv"],
            lambda: shutil.rmtree(trained, ignore_errors=True),
        ),
        "evaluate": Trial(
            lambda: measured,
            lambda: [path for path in (trained / "results").rglob("*") if path.is_file()],
            lambda: shutil.rmtree(trained / "results", ignore_errors=True),
        ),
        "embed": Trial(lambda: embedded, lambda: [table], lambda: table.unlink(missing_ok=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of every command [%(default)s]")
    parser.add_argument("--kills", type=int, default=5, help="the most of a round [%(default)s]")
    parser.add_argument("--only", nargs="+", default=[], help="some of train, evaluate, embed; train comes first")
    parser.add_argument("--seed", type=int, default=0, help="of the moments [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/kills.json"))
    args = parser.parse_args()
    drawn, figures = random.Random(args.seed), dict[str, Any]()
    with tempfile.TemporaryDirectory() as name:
        for what, trial in trials(Path(name) / "kills").items():
            if args.only and what not in args.only:
                continue
            figures[what] = found = trial.measure(args.rounds, args.kills, drawn)
            print(f"{what}: {found['kills']} kills, {found['same']} of {found['rounds']} to the same bytes", flush=True)
    write(args.out, figures)
    return int(any(found["same"] < found["rounds"] or not found["kills"] for found in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
