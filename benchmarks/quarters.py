"""How many photos `duet orient` decides, and how many of these it gets wrong: quarter turns, by kind and threshold.

DUET_DATA=... python benchmarks/quarters.py [--model photos-rot4] [--split calibration|test] [--other N] [--rivals]
    [--out FILE]

The threshold is chosen on `calibration`, the photos that were kept aside from the training; `test` is for the figures
alone. A model that looks at four quarter turns reads each of them alike, so that every photo is read once, as it is.
`--other`: so many images of sets that are no photos of its kind, all with the same threshold. `--rivals`: the four-way
linear probe of the same trunk, fitted to the views that the model was trained on and judged by four copies, and
leaving every photo alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from measure import write
from torch import Tensor
from torch.nn import functional as F

import duet
from duet.application.angle import SURE_QUARTER, estimate_rotation, rotation_axis
from duet.data import Images, open_images
from duet.error import DuetError
from duet.paper.upright_rivals import softmax_regression
from duet.training.cache import cache_views
from duet.training.calibration import keep_aside
from duet.training.experiment import Experiment, build_stack, open_data

THRESHOLDS = (0.8, 0.84, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
OTHERS = ("plankton", "aerial64", "coil20", "mnist", "dtd10", "flowers102", "food101")
BATCH = 128
GRID, DECAY = 4, 1e-2
RECIPE: dict[str, Any] = {
    "group": ("rot4",),
    "trunk_size": 192,
    "grid": 6,
    "cached_views": 3,
    "action_pairs": 0,
    "epochs": 15,
}
"""Of the shipped model, on top of the preset `photos`; its card has the command."""


def maps_of(encoder: duet.Encoder, images: Images) -> Tensor:
    """The trunk's maps of four quarter turns of every image: (N,4,C,s,s) in half precision."""
    trunk, parts = encoder.backbone.trunk, []
    if trunk is None or encoder.turns != 4:
        raise DuetError("this measures models on a trunk that look at four quarter turns")
    trunk.warm(encoder.image_size or (128, 128))
    for pixels, _ in images.in_order(BATCH):
        shown = pixels.float() / 255
        found = trunk(torch.cat([torch.rot90(shown, k, (2, 3)) for k in range(4)]))
        parts.append(found.unflatten(0, (4, -1)).transpose(0, 1).half())
    return torch.cat(parts)


def features_of(encoder: duet.Encoder, maps: Tensor) -> Tensor:
    """The encoder's features by these maps: (N,4,C,s,s) -> (N,D)."""
    axis, parts = rotation_axis(encoder), []
    with torch.inference_mode():
        for part in maps.split(BATCH):
            z = [encoder.backbone(part[:, k].float()) for k in range(4)]
            back = [encoder.layout.roll(z[k], axis, -k * (axis.bins // 4)) for k in range(4)]
            parts.append(torch.stack(back).mean(0))
    return torch.cat(parts)


def kinds_of(images: Images) -> list[str]:
    """What is before the first hyphen of every image's class."""
    if images.labels is None or images.classes is None:
        raise DuetError("the images have no classes")
    return [images.classes[label].partition("-")[0] for label in images.labels.tolist()]


def shares(decided: Tensor, right: Tensor) -> dict[str, float]:
    """How many are decided, how many of those are wrong, and how many of all."""
    wrong = decided & ~right
    return {
        "images": len(decided),
        "decided": float(decided.double().mean()),
        "wrong_of_decided": float(wrong.sum() / decided.sum().clamp(min=1)),
        "wrong": int(wrong.sum()),
    }


def by_kind(kinds: list[str], right: Tensor, known: Tensor, score: Tensor, thresholds: Any) -> dict[str, Any]:
    """Coverage and error by kind; scenes and pets together are what has an upright."""
    rows = {name: torch.tensor([kind == name for kind in kinds]) for name in sorted(set(kinds))}
    rows["scenes and pets"] = rows["scene"] | rows["pet"]
    found = {}
    for name, own in rows.items():
        found[name] = {
            "images": int(own.sum()),
            "right, undecided ones counted": float(right[own].double().mean()),
            "by threshold": {f"{t:g}": shares((known & (score >= t))[own], right[own]) for t in thresholds},
        }
    return found


def probe_of(encoder: duet.Encoder, experiment: Experiment, trained: Images) -> Any:
    """A softmax regression of the trunk's maps on the quarter turn, from the model's own training views."""
    assert encoder.backbone.trunk is not None
    views = cache_views(
        encoder.backbone.trunk, trained, build_stack(experiment), experiment.cached_views, experiment.seed
    )
    drawn = views.pick(torch.arange(len(views)), 1, torch.Generator().manual_seed(0))
    group = encoder.groups[rotation_axis(encoder).name]
    quarter = torch.remainder(((drawn.g[group.name] - group.identity) * 4).round(), 4).long()
    x = pooled(drawn.images)
    mean, spread = x.mean(0), x.std(0).clamp(min=1e-6)
    weight, bias = softmax_regression((x - mean) / spread, quarter, DECAY, 60)
    return lambda maps: ((pooled(maps.float()) - mean) / spread) @ weight + bias


def pooled(maps: Tensor) -> Tensor:
    """(N,C,s,s) -> (N, C * GRID * GRID)"""
    return F.adaptive_avg_pool2d(maps, min(GRID, maps.shape[-1])).flatten(1)


def judged_by_probe(scores: Any, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the mean over four copies, each turned back, is right, and its probability: (N,), (N,)."""
    mean = torch.stack([scores(maps[:, k]).roll(-k, 1) for k in range(4)]).mean(0).softmax(1)
    best, place = mean.max(1)
    return place == 0, best


def at_coverage(right: Tensor, score: Tensor, coverage: float) -> float:
    """The share of wrong ones among the surest so many."""
    surest = score.argsort(descending=True, stable=True)[: round(coverage * len(score))]
    return float((~right[surest]).double().mean())


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="photos-rot4")
    parser.add_argument("--split", choices=["calibration", "test"], default="calibration")
    parser.add_argument("--other", type=int, default=0)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    encoder = duet.load(args.model, "cpu")
    experiment = Experiment.preset("photos", data="photos128", **RECIPE)
    kept = keep_aside(open_data(experiment), experiment.calibrate, experiment.batch_size)
    images = kept.aside if args.split == "calibration" else open_data(experiment, "test")
    if images is None:
        raise DuetError("no photos are kept aside")
    maps, kinds = maps_of(encoder, images), kinds_of(images)
    found = estimate_rotation(encoder, features_of(encoder, maps), 0, snap=True)
    right, score = found.degrees == 0, found.probability
    settings = {"model": args.model, "split": args.split, "images": len(kinds), "default_sure": SURE_QUARTER}
    thresholds = sorted({*THRESHOLDS, SURE_QUARTER})
    figures: dict[str, Any] = {"settings": settings, "duet": by_kind(kinds, right, found.known, score, thresholds)}
    if args.rivals:
        own = torch.tensor([kind != "object" for kind in kinds])
        probe, surety = judged_by_probe(probe_of(encoder, experiment, kept.trained), maps)
        levels = (0.75, 0.85, 0.9, 0.95, 1.0)
        figures["scenes and pets: wrong among the surest"] = {
            "duet": {f"{c:g}": at_coverage(right[own], score[own], c) for c in levels},
            "four-way linear probe": {f"{c:g}": at_coverage(probe[own], surety[own], c) for c in levels},
        }
        figures["leaving all alone"] = "wrong for none that is upright, for all others; decides nothing"
    if args.other:
        figures["sure of other kinds"] = {}
        for name in OTHERS:
            sample = open_images(name, "test", image_size=128, channels=3, storage="stream").sample(args.other, 0)
            read = estimate_rotation(encoder, encoder.features(sample), SURE_QUARTER, snap=True)
            own = {"known": float(read.known.double().mean()), "sure": float(read.sure.double().mean())}
            figures["sure of other kinds"][name] = own
    print(json.dumps(figures, indent=2))
    if args.out is not None:
        write(args.out, figures)


if __name__ == "__main__":
    main()
