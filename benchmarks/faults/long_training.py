"""A long training with evaluation and checkpoints in one process: is its memory flat?

python benchmarks/faults/long_training.py [--minutes 30] [--out FILE]

One run goes on and on: so many epochs, an evaluation, more epochs. The memory is what the process holds at the end of
every round; the median of the last fifth of the rounds is compared with that of the second fifth, since the first is
for warming up.
"""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from process import resident

import duet
from duet.training.run import resume

sys.path.append(str(Path(__file__).parents[1]))
from measure import write

FLAT = 0.02
"""How much the memory may grow."""
EPOCHS = 4


def one_round(run: Path, number: int) -> None:
    """Some epochs more, with a checkpoint every few steps, and two evaluations."""
    if number == 0:
        values = {"encoder": "tiny", "epochs": EPOCHS, "subset": 640, "batch_size": 64, "projector": [32, 16]}
        duet.train(duet.Experiment.preset("demo", **values), run, checkpoint_every=5, quiet=True)
    else:
        resume(run, EPOCHS * (number + 1), checkpoint_every=5, quiet=True)
    duet.evaluate(run, ["classification", "recovery"], sizes="quick", force=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="how long [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/long_training.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("duet").setLevel(logging.ERROR)
    memory: list[float] = []
    begun = said = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        while time.monotonic() - begun < 60 * args.minutes or len(memory) < 5:
            one_round(Path(name) / "run", len(memory))
            gc.collect()
            memory.append(resident())
            if time.monotonic() - said > 5:
                said = time.monotonic()
                passed = (said - begun) / 60
                print(f"{passed:.1f} of {args.minutes:g} minutes, round {len(memory)}: {memory[-1]:.0f} MB", flush=True)
    fifth = len(memory) // 5
    first, last = statistics.median(memory[fifth : 2 * fifth]), statistics.median(memory[-fifth:])
    growth = last / first - 1
    print(f"{len(memory)} rounds of {EPOCHS} epochs: from {first:.0f} to {last:.0f} MB, {growth:+.1%}")
    figures = {"minutes": args.minutes, "rounds": len(memory), "first_mb": first, "last_mb": last, "growth": growth}
    write(args.out, {**figures, "memory_mb": memory})
    return int(growth > FLAT)


if __name__ == "__main__":
    sys.exit(main())
