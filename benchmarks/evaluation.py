"""What scoring a model costs beside its bare forward passes, in one run.

python benchmarks/evaluation.py [MODEL] [--sizes demo] [--repeats 3] [--threads 2] [--out runs/bench/evaluation.json]

All evaluations but generation, without rivals. Every call of the encoder is timed inside the run: that is the bare
forward passes. Fits of probes and of the classifier are timed and left out of the ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measure import write

import duet.evaluation.classification as classification
import duet.evaluation.probe as probe
from duet.evaluation import evaluate, open_context
from duet.evaluation.suite import find_evaluations


class Clock:
    """Adds up the seconds spent in a function, and the images that it was given."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds, self.images = function, 0.0, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = self.function(*arguments, **options)
        self.seconds += time.perf_counter() - start
        self.images += len(arguments[0])
        return found


def score(model: str, sizes: str) -> dict[str, float]:
    """Seconds of one evaluation: in all, in the encoder, in fits of probes."""
    context = open_context(model, sizes=sizes, device="cpu")
    encoder = Clock(context.subject.features)
    timed = replace_features(context.subject, encoder)
    fits = [Clock(probe.linear_probe), Clock(classification.logistic_seeds)]
    probe.linear_probe, classification.logistic_seeds = fits
    try:
        start = time.perf_counter()
        names = [name for name in find_evaluations(None) if name != "generation"]
        evaluate(replace(context, subject=timed), names, rivals=False, progress=False)
        whole = time.perf_counter() - start
    finally:
        probe.linear_probe, classification.logistic_seeds = (clock.function for clock in fits)
    fitting = sum(clock.seconds for clock in fits)
    return {
        "seconds": whole,
        "encoder": encoder.seconds,
        "images": encoder.images,
        "probes": fitting,
        "ratio": (whole - fitting) / encoder.seconds,
    }


def replace_features(encoder: Any, features: Clock) -> Any:
    """The encoder with its features timed."""
    encoder.features = features
    return encoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="digits-rot360")
    parser.add_argument("--sizes", nargs="+", default=["demo", "quick"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/evaluation.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    print(f"{'sizes':<8}{'seconds':>9}{'encoder':>9}{'images':>9}{'probes':>8}{'ratio':>7}")
    for _ in range(args.repeats):
        for sizes in args.sizes:
            row = {"sizes": sizes, **score(args.model, sizes)}
            rows.append(row)
            print(
                f"{sizes:<8}{row['seconds']:>9.1f}{row['encoder']:>9.1f}{row['images']:>9.0f}{row['probes']:>8.1f}"
                f"{row['ratio']:>7.2f}"
            )
    write(args.out, {"model": args.model, "threads": args.threads, "rows": rows})


if __name__ == "__main__":
    main()
