"""Trials from which the presets `cifar` and `cifar-best` were chosen: each trains on 45,000 CIFAR-10 images and is
judged on the 5,000 that are held out. Test images take no part.

python benchmarks/recipe.py NAME ... [--out docs/results/budget.json] [--list]

DUET_DATA must hold all 50,000 training images. A trial is written down with its settings, its seconds of processor
time, and the accuracy of logistic regression on its features; one that is in the file already is not repeated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import duet
from duet.evaluation.classification import accuracy, logistic, nearest_neighbours
from duet.file import write_json
from duet.groups import GROUPS
from duet.lock import locked
from duet.networks.mode import estimate_statistics
from duet.pixels import as_float
from duet.representation import recover
from duet.training.calibration import Kept, keep_aside
from duet.training.experiment import from_dict, open_data

STRENGTH = 0.01
"""Inverse regularisation of the logistic regression, one for all trials."""
FULL = {
    **{"data": "cifar10", "image_size": 32, "method": "simclr", "group": "hflip", "stack": "full"},
    **{"encoder": "resnet8-88mf", "projector": [512, 128], "view_size": ["24"], "precision": "auto"},
    **{"epochs": 8, "batch_size": 512, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.05, "decay_norms": False},
    **{"warmup_epochs": 0.5, "temperature": 0.2, "action_pairs": 0, "calibrate": True},
}
"""SimCLR on the full stack, from which every trial departs."""
CHOSEN: dict[str, Any] = {"lr": 8e-3, "temperature": 0.1}
"""What the short trials chose; those that follow depart from it."""
SHORT: dict[str, Mapping[str, Any]] = {
    **{"base": {}, "32-last": {"view_size": ["24@0.8", "32"]}, "batch-256": {"batch_size": 256, "lr": 1.4e-3}},
    **{"lr-4e-3": {"lr": 4e-3}, "lr-8e-3": {"lr": 8e-3}, "decay": {"weight_decay": 0.01}},
    "lr-4e-3-temperature-0.1": {"lr": 4e-3, "temperature": 0.1},
    "lr-8e-3-temperature-0.1": {"lr": 8e-3, "temperature": 0.1},
    **{
        f"rrc-rot360-duet-1000-lr-{lr}": {
            **{"stack": "rrc", "group": "rot360", "method": "duet", "weight": 1000, "temperature": 0.1},
            "lr": float(lr),
        }
        for lr in ("4e-3", "8e-3")
    },
    **{"temperature-0.1": {"temperature": 0.1}, "temperature-0.5": {"temperature": 0.5}},
    **{"4-views": {"views": 4, "epochs": 2}, "projector-wide": {"projector": [1024, 1024, 128]}},
    "sigreg": {"contrast": "sigreg", "projector": [1024, 1024, 128]},
    "sgd": {"optimizer": "sgd", "lr": 0.3, "betas": [0.9, 0.95], "weight_decay": 5e-4},
    "resnet18-half": {"encoder": "resnet18-half", "view_size": ["16"], "epochs": 3},
}
"""Trials of half the time, to be compared with each other."""
BEST: dict[str, Mapping[str, Any]] = {
    "simclr": {"group": "rot4", "options": {"leave_out": True}},
    "essl-rot4": {"group": "rot4", "method": "essl"},
    **{
        f"duet-{group}-{weight}": {"group": group, "method": "duet", "weight": weight, "options": {"views": "separate"}}
        for group in ("rot4", "rot360")
        for weight in (3, 10, 30, 100)
    },
    **{
        f"duet-{group}-10-late": {
            **{"group": group, "method": "duet", "weight": 10},
            "options": {"views": "separate", "full": 1.0, "full_from": 0.67},
        }
        for group in ("rot4", "rot360")
    },
    **{
        f"duet-rot360-{weight}-full": {
            **{"group": "rot360", "method": "duet", "weight": weight},
            "options": {"views": "separate", "full": 1.0},
        }
        for weight in (10, 30, 100, 300)
    },
    **{
        f"duet-rot360-{weight}-shared": {"group": "rot360", "method": "duet", "weight": weight}
        for weight in (100, 1000)
    },
}
"""Trials for `cifar-best` with a smaller network: what stands in the table, and at which lambda."""
TRIALS: dict[str, Mapping[str, Any]] = {
    "base": {},
    "22mf": {"encoder": "resnet8-22mf", "epochs": 22},
    "sizes-16-24": {"view_size": ["16@0.5", "24"], "epochs": 11},
    "sizes-16-24-32": {"view_size": ["16@0.5", "24@0.85", "32"], "epochs": 10},
    "no-blur": {"blur": 0.0},
    "batch-256": {"batch_size": 256},
    "temperature-0.1": {"temperature": 0.1},
    "temperature-0.5": {"temperature": 0.5},
    "lr-4e-3": {"lr": 4e-3},
    "lr-1e-3": {"lr": 1e-3},
    "projector-wide": {"projector": [1024, 1024, 128]},
    "vicreg": {"contrast": "vicreg", "projector": [1024, 1024]},
    "sigreg": {"contrast": "sigreg", "projector": [1024, 1024, 128]},
    "tcr": {"contrast": "tcr", "projector": [1024, 1024, 256]},
    "tcr-8-views-16": {"contrast": "tcr", "projector": [1024, 256], "views": 8, "view_size": ["16"], "epochs": 4},
    "4-views-16": {"views": 4, "view_size": ["16"], "epochs": 8},
    "4-views": {"views": 4, "epochs": 4},
    "resnet18-half-16": {"encoder": "resnet18-half", "view_size": ["16"], "epochs": 6},
    "4-views-sizes": {"views": 4, "view_size": ["16@0.6", "24"], "epochs": 5},
    "tcr-8-patches": {
        **{"contrast": "tcr", "projector": [1024, 256], "views": 8, "view_size": ["16"], "area": [0.2, 0.3]},
        **{"epochs": 4, "blur": 0.0},
    },
    "sizes-16-24-no-blur": {"view_size": ["16@0.4", "24"], "epochs": 10, "blur": 0.0},
    "rrc-hue-sizes": {"stack": "rrc", "group": "hue", "view_size": ["16@0.4", "24"], "epochs": 10},
    "sgd": {"optimizer": "sgd", "lr": 0.3, "betas": [0.9, 0.95], "weight_decay": 5e-4},
    "rrc-hue": {"stack": "rrc", "group": "hue"},
    "sharp-batch-256": {"batch_size": 256, "lr": 1.4e-3, "blur": 0.0},
    "sharp-temperature-0.1": {"temperature": 0.1, "blur": 0.0},
    "sharp-temperature-0.5": {"temperature": 0.5, "blur": 0.0},
    "sharp-lr-4e-3": {"lr": 4e-3, "blur": 0.0},
    "sharp-sigreg": {"contrast": "sigreg", "projector": [1024, 1024, 128], "blur": 0.0},
    "sharp-projector-wide": {"projector": [1024, 1024, 128], "blur": 0.0},
    "sharp-4-views": {"views": 4, "epochs": 4, "blur": 0.0},
    "sharp-20": {"view_size": ["20"], "epochs": 11, "blur": 0.0},
    "sharp-resnet18-half-16": {"encoder": "resnet18-half", "view_size": ["16@0.6", "24"], "epochs": 4, "blur": 0.0},
    "rrc-rot360-simclr": {"stack": "rrc", "group": "rot360"},
    "tenth-88mf": {"blur": 0.0, "epochs": 12, **CHOSEN},
    "tenth-resnet18-half": {"blur": 0.0, "epochs": 4, **CHOSEN, "encoder": "resnet18-half"},
    **{f"short-{name}": {"blur": 0.0, "epochs": 4, **changes} for name, changes in SHORT.items()},
    **{f"best-{name}": {"blur": 0.0, "epochs": 4, **CHOSEN, **changes} for name, changes in BEST.items()},
    **{
        f"short-rrc-{group}-duet{small}{suffix}": {
            **{"stack": "rrc", "group": group, "method": "duet", "weight": 10, "blur": 0.0, "lr": 4e-3},
            **{"encoder": encoder, "epochs": epochs},
            **sizes,
        }
        for encoder, epochs, small in (("resnet8-88mf", 4, ""), ("resnet8-22mf", 3, "-22mf"))
        for group in ("scale", "rot360")
        for suffix, sizes in {"": {}, "-32-last": {"view_size": ["24@0.8", "32"]}, "-32": {"view_size": ["32"]}}.items()
    },
}


def run(name: str, seed: int, keep: Path | None = None) -> dict[str, Any]:
    """Train a trial and judge it; its model is copied into `keep`."""
    experiment = from_dict({**FULL, **TRIALS[name], "seed": seed})
    kept = keep_aside(open_data(experiment), True, experiment.batch_size)
    began, clock = time.process_time(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        duet.train(experiment, Path(folder) / "run", quiet=True)
        spent = {"cpu_seconds": time.process_time() - began, "seconds": time.monotonic() - clock}
        encoder = duet.load(Path(folder) / "run", device="cpu")
    if keep is not None:
        encoder.save(keep / f"{name}-seed{seed}")
    found: dict[str, Any] = {"settings": TRIALS[name], "seed": seed, "threads": torch.get_num_threads()}
    found |= {key: round(value, 1) for key, value in spent.items()}
    found["running"] = judge(encoder, kept)
    if experiment.method == "duet":
        found["reading"] = reading(encoder, kept, experiment.group[0])
    sample = as_float(kept.trained.sample(8192, seed)).split(512)
    estimate_statistics(encoder.backbone, sample)
    found["estimated"] = judge(encoder, kept)
    return found


def reading(encoder: duet.Encoder, kept: Kept, name: str) -> dict[str, float]:
    """Median distance of g as read from its truth, on transformed held-out images at full size; and of one constant."""
    assert kept.aside is not None
    group, draws = GROUPS[name], torch.Generator().manual_seed(0)
    distances, truths = [], []
    for pixels, _ in kept.aside.in_order(1000):
        g = group.sample(len(pixels), draws)
        z = encoder.features(group.apply(as_float(pixels), g, draws))
        distances.append(group.domain.distance(recover(z, encoder.layout, name).g, g))
        truths.append(g)
    g = torch.cat(truths)
    constants = [float(group.domain.distance(g, torch.full_like(g, c)).median()) for c in torch.linspace(0, 1, 101)]
    return {"median_distance": float(torch.cat(distances).median()), "best_constant": min(constants)}


def judge(encoder: duet.Encoder, kept: Kept) -> dict[str, float | None]:
    """Accuracy on the held-out images."""
    assert kept.aside is not None
    (z, y), (held, truth) = (features(encoder, images) for images in (kept.trained, kept.aside))
    fit = logistic(z, y, held, strengths=(STRENGTH,))
    return {
        "logistic": None if fit.predicted is None else accuracy(fit.predicted, truth.numpy()),
        "knn": accuracy(nearest_neighbours(z, y, held).numpy(), truth.numpy()),
    }


def features(encoder: duet.Encoder, images: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and labels of all images."""
    parts = [(encoder.features(pixels), labels) for pixels, labels in images.in_order(1000)]
    return torch.cat([z for z, _ in parts]), torch.cat([labels for _, labels in parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/results/budget.json"))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the models there")
    parser.add_argument("--list", action="store_true", help="name the trials")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in TRIALS]:
        parser.error(f"no trial {unknown[0]}; there are {chr(44).join(TRIALS)}")
    if args.list:
        for name, changes in TRIALS.items():
            print(name, changes)
    for name in args.names:
        key = f"{name}-seed{args.seed}"
        if key in _read(args.out):
            continue
        found = run(name, args.seed, args.keep)
        with locked(args.out.with_suffix(".lock"), wait=True):
            write_json(args.out, {**_read(args.out), key: found})
        print(key, json.dumps(found), flush=True)


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


if __name__ == "__main__":
    main()
