"""What `duet orient --range` leaves of small tilts: photos kept aside when photos-rot360 was trained, tilted at random.

DUET_DATA=... python benchmarks/tilt.py [--kind scene] [--images 300] [--seed 0] [--out FILE]

The photos' own tilt is taken as none. Mean degrees before and after, over the images whose reading is sure, and the
share of them that is turned, by the least tilt that counts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from measure import write

import duet
from duet.application.angle import estimate_rotation
from duet.application.orientation import LEAST_TILT
from duet.error import DuetError
from duet.groups import find_group
from duet.paper.photos import recipe
from duet.training.calibration import keep_aside
from duet.training.experiment import open_data

RANGE = 15.0
LEAST = (0.0, 1.0, 2.0, 3.0, LEAST_TILT, 6.0)
TILTS = (0.0, 2.0, 5.0, 10.0)


def kept_aside(kind: str, count: int) -> torch.Tensor:
    """Photos (N,C,H,W) of one kind, of those that calibrated the model."""
    experiment = recipe()
    aside = keep_aside(open_data(experiment), experiment.calibrate, experiment.batch_size).aside
    if aside is None or aside.classes is None:
        raise DuetError("no photos are kept aside")
    images, labels = aside.tensors()
    own = [row for row, label in enumerate(labels.tolist()) if aside.classes[label].startswith(f"{kind}-")]
    return images[own[:count]].float() / 255


def levelled(encoder: duet.Encoder, images: torch.Tensor, most: float, seed: int) -> dict[str, Any]:
    """How far photos are tilted before and after, in degrees."""
    group = find_group("rot360")
    chance = torch.Generator().manual_seed(seed)
    tilt = most * (2 * torch.rand(len(images), generator=chance) - 1)
    seen = group.apply(images, torch.remainder(group.identity + tilt / 360, 1)) if most else images
    found = estimate_rotation(encoder, encoder.features(seen), span=RANGE)
    tilt, read = tilt[found.sure], found.degrees[found.sure]
    after = {}
    for least in LEAST:
        by = torch.where(read.abs() < least, 0, read)
        after[f"{least:g}"] = {
            "mean_degrees": float((tilt - by).abs().mean()),
            "turned": float((by != 0).float().mean()),
        }
    return {"sure": len(tilt), "before_degrees": float(tilt.abs().mean()), "after, by --least": after}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="scene")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    images, encoder = kept_aside(args.kind, args.images), duet.load("photos-rot360")
    tilts = {f"{most:g}": levelled(encoder, images, most, args.seed) for most in TILTS}
    settings = {"kind": args.kind, "images": len(images), "range": RANGE, "seed": args.seed}
    figures = {"settings": settings, "tilted by up to": tilts}
    print(json.dumps(figures, indent=2))
    if args.out is not None:
        write(args.out, figures)


if __name__ == "__main__":
    main()
