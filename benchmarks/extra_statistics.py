"""What it costs a method when the running statistics of batch norm also count its small extra views.

    python benchmarks/extra_statistics.py [--seeds 3] [--group rot4] [--out docs/results/extra-statistics.json]

Running statistics take no part in training, so both encoders of a pair have the same weights: one averages full-size
views alone, the other all views that went through the network. Preset `cifar-cpu` (CIFAR-10 in $DUET_DATA), judged on
5,000 training images that no run trains on: the tracking head, logistic regression and nearest neighbours.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from measure import write
from recipe import features, judge

import duet
from duet.data import open_images
from duet.evaluation.classification import accuracy, predict
from duet.training.calibration import Kept
from duet.training.experiment import open_data

METHODS = {"essl": {"method": "essl"}, "duet-separate": {"method": "duet", "options": {"views": "separate"}}}
HELD = 5000


def pair(method: str, group: str, seed: int) -> dict[str, Any]:
    """Both encoders of a method and a seed, judged."""
    experiment = duet.Experiment.preset("cifar-cpu", group=group, seed=seed, **METHODS[method])
    trained = open_data(experiment)
    whole = open_images("cifar10", image_size=32)
    own = {pixels.numpy().tobytes() for pixels in trained.tensors()[0]}
    others = [row for row, pixels in enumerate(whole.tensors()[0]) if pixels.numpy().tobytes() not in own]
    order = torch.randperm(len(others), generator=torch.Generator().manual_seed(0))[:HELD]
    kept = Kept(trained, whole.part(torch.tensor(others)[order].sort().values), "")
    assert kept.aside is not None
    found: dict[str, Any] = {}
    for name in ("full size alone", "all views"):
        counted = patch(f"duet.methods.{experiment.method}.statistics_kept", lambda module: nullcontext())
        with tempfile.TemporaryDirectory() as folder, counted if name == "all views" else nullcontext():
            duet.train(experiment, Path(folder) / "run", quiet=True)
            encoder = duet.load(Path(folder) / "run", device="cpu")
        z, labels = features(encoder, kept.aside)
        head = None if encoder.head is None else accuracy(predict(encoder.head, z), labels.numpy())
        found[name] = {"head": head, **judge(encoder, kept)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--group", default="rot4")
    parser.add_argument("--out", type=Path, default=Path("docs/results/extra-statistics.json"))
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    for seed in range(args.seeds):
        for method in METHODS:
            figures[f"{method}-{args.group}-seed{seed}"] = pair(method, args.group, seed)
            print(f"{method}, seed {seed}: {figures[f'{method}-{args.group}-seed{seed}']}", flush=True)
            write(args.out, figures)


if __name__ == "__main__":
    main()
