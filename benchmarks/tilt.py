"""What `duet orient --any-angle` and `--range` leave of tilts: photos that the model never saw, tilted at random.

DUET_DATA=... python benchmarks/tilt.py [--split calibration|test] [--images 600] [--seed 0] [--least DEGREES]
    [--out FILE]

The photos' own tilt is taken as none. Every setting has the photos tilted by random angles of at most so many degrees
to either side, and reads them as the command does. `calibration` has the photos that were kept aside from the training
of photos-rot360, to which its errors are fitted: for choosing; `test` is for the figures. Leaving all photos alone
makes none worse and none better.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from measure import write
from torch import Tensor

import duet
from duet.application.angle import SURE_ANGLE, estimate_rotation, judge_improvement
from duet.application.orientation import LEAST_TILT
from duet.error import DuetError
from duet.groups import find_group
from duet.paper.photos import recipe
from duet.training.calibration import keep_aside
from duet.training.experiment import open_data

SETTINGS = ((0.0, None), (0.0, 15.0), (15.0, None), (15.0, 15.0), (180.0, None))
"""The largest tilt, and the range of the reading."""
BATCH = 128


def photos(split: str, count: int, seed: int) -> tuple[Tensor, list[str]]:
    """Photos (N,C,H,W), and the kind of each."""
    experiment = recipe()
    images = open_data(experiment, "test")
    if split == "calibration":
        aside = keep_aside(open_data(experiment), experiment.calibrate, experiment.batch_size).aside
        if aside is None:
            raise DuetError("no photos are kept aside")
        images = aside
    pixels, labels = images.tensors()
    if labels is None or images.classes is None:
        raise DuetError("the photos have no classes")
    chosen = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))[:count]
    kinds = [images.classes[label].partition("-")[0] for label in labels[chosen].tolist()]
    return pixels[chosen].float() / 255, kinds


def levelled(encoder: duet.Encoder, seen: Tensor, tilt: Tensor, span: float | None, least: float) -> dict[str, Tensor]:
    """How far photos are tilted before and after, in degrees, and what was done with each: (N,) each."""
    z = encoder.features(seen, BATCH)
    found = estimate_rotation(encoder, z, SURE_ANGLE, span=span)
    level = found.sure & (found.degrees.abs() < least)
    judged = judge_improvement(encoder, z, found, SURE_ANGLE, span)
    rotated = judged.sure & ~level
    after = torch.remainder(tilt - found.degrees.where(rotated, torch.zeros(())) + 180, 360) - 180
    return {"before": tilt.abs(), "after": after.abs(), "rotated": rotated, "level": level, "read": found.degrees.abs()}


def told(own: dict[str, Tensor], rows: Tensor) -> dict[str, float]:
    """The figures of some rows; `sure` counts what is rotated or taken as level."""
    part = {key: value[rows] for key, value in own.items()}
    rotated, sure = part["rotated"], part["rotated"] | part["level"]
    worse = rotated & (part["after"] > part["before"])
    figures = {
        "images": len(rotated),
        "sure": float(sure.double().mean()),
        "rotated": float(rotated.double().mean()),
        "worse": int(worse.sum()),
        "worse_of_sure": float(worse.sum() / sure.sum().clamp(min=1)),
        "worse_of_rotated": float(worse.sum() / rotated.sum().clamp(min=1)),
        "mean_before": float(part["before"].mean()),
        "mean_after": float(part["after"].mean()),
    }
    if bool(rotated.any()):
        figures["rotated_mean_before"] = float(part["before"][rotated].mean())
        figures["rotated_mean_after"] = float(part["after"][rotated].mean())
        figures["smallest_rotated"] = float(part["read"][rotated].min())
    return figures


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["calibration", "test"], default="calibration")
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=LEAST_TILT)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    encoder, group = duet.load("photos-rot360", "cpu"), find_group("rot360")
    images, kinds = photos(args.split, args.images, args.seed)
    rows = {kind: torch.tensor([own == kind for own in kinds]) for kind in sorted(set(kinds))}
    rows["scenes and pets"] = rows["scene"] | rows["pet"]
    rows["all"] = torch.ones(len(kinds), dtype=torch.bool)
    figures: dict[str, Any] = {
        "settings": {"split": args.split, "images": len(kinds), "seed": args.seed, "least": args.least},
        "sure": SURE_ANGLE,
    }
    for most, span in SETTINGS:
        chance = torch.Generator().manual_seed(args.seed)
        tilt = most * (2 * torch.rand(len(images), generator=chance) - 1)
        parts = torch.split(torch.arange(len(images)), BATCH)
        g = torch.remainder(group.identity + tilt / 360, 1)
        seen = torch.cat([group.apply(images[part], g[part]) for part in parts]) if most else images
        own = levelled(encoder, seen, tilt, span, args.least)
        name = f"tilted by up to {most:g}, {'--any-angle' if span is None else f'--range {span:g}'}"
        figures[name] = {kind: told(own, part) for kind, part in rows.items()}
    print(json.dumps(figures, indent=2))
    if args.out is not None:
        write(args.out, figures)


if __name__ == "__main__":
    main()
