"""Class and angle of DUET with views apart, on training images that no run trains on.

python benchmarks/views_apart.py [--runs FOLDER] [--out FILE]

The runs are those of `duet reproduce full-stack` on quarter turns (seed 0, images in $DUET_DATA), and three more; those
that FOLDER holds are not trained again. Beside them stand pixels, the untrained network and k-means patches. Of 5,000
other training images: a logistic regression's class, the turns that are read off the table at full size, and a linear
probe of them. At half size the turns are read off images averaged over 2 x 2 pixels: the size of the extra views. Four
looks are those of a model with turns=4, at the four quarter turns; at half size they cost as much as one at full size.
Whoever chooses an option chooses it here, and not on test images.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from measure import write
from torch import Tensor
from torch.nn.functional import avg_pool2d

import duet
from duet.data import Images, open_images
from duet.data.split import balanced_subset
from duet.evaluation.classification import accuracy, logistic
from duet.evaluation.context import Sizes
from duet.evaluation.rival import rivals_of
from duet.evaluation.subject import Subject
from duet.groups import GROUPS
from duet.model import Encoder
from duet.model.turns import look_around
from duet.paper.accuracy import LATE, SEPARATE
from duet.paper.full_stack import WITHOUT
from duet.pixels import as_float
from duet.representation import recover
from duet.study import expand
from duet.study.computation import compute, run_folder
from duet.study.plan import Run
from duet.study.record import finished

FULL = {**SEPARATE["options"], "full": 1.0}
METHODS: list[str | dict[str, Any]] = [
    *(WITHOUT, "essl", "duet", SEPARATE, LATE),
    {"name": "duet-full", "method": "duet", "options": FULL},
    {"name": "duet-longer", "method": "duet", "epochs": 25},  # for the time of ESSL, whose step takes 1.7 times as long
    {"name": "duet-later", "method": "duet", "options": {**FULL, "full_from": 0.85}},
]
TURNED = 1500
"""Images of which all four quarter turns are read."""
STRENGTHS = (0.001, 0.01, 0.1)


def runs() -> tuple[Run, ...]:
    """Named as the runs of Table 3 are, so that those are found."""
    vary = {"seed": [0], "group": ["rot4"], "method": METHODS}
    return expand({"base": {"preset": "cifar-cpu", "stack": "full"}, "vary": vary}, "views-apart", "views-apart").runs


def held_out(run: Run, count: int = 5000) -> tuple[Images, Images]:
    """The images of a run, and others of the same set."""
    subset, seed = run.experiment.subset, run.experiment.seed
    own = open_images(run.experiment.data, "train", subset=subset, seed=seed)
    whole = open_images(run.experiment.data, "train")
    assert subset is not None
    others = torch.ones(len(whole), dtype=torch.bool)
    others[balanced_subset(len(whole), whole.labels, subset, seed)] = False
    rows = others.nonzero().flatten()
    return own, whole.part(rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(7))[:count]])


def judge(encoder: Subject, own: Images, others: Images) -> dict[str, float]:
    """Percentages of the other images."""
    pixels, z, labels = zip(*(_look(encoder, images) for images in (own, others)), strict=True)
    found = {"class": _percent(logistic(z[0], labels[0], z[1], strengths=STRENGTHS).predicted, labels[1])}
    turns = torch.arange(4).repeat_interleave(TURNED)
    trained, tested = (_turned(images[:TURNED]) for images in pixels)
    probed = logistic(encoder.features(trained), turns, encoder.features(tested), strengths=STRENGTHS)
    found["probe"] = _percent(probed.predicted, turns)
    if isinstance(encoder, Encoder) and encoder.layout.axes:
        for size, seen in {"": as_float(tested), " at half size": avg_pool2d(as_float(tested), 2)}.items():
            found[f"read{size}"] = _read(encoder, seen, turns, looks=1)
            found[f"read{size}, four looks"] = _read(encoder, seen, turns, looks=4)
    return found


def _read(encoder: Encoder, images: Tensor, turns: Tensor, looks: int) -> float:
    """Percent of quarter turns that are read off the table, at the size that the images have."""
    group = GROUPS["rot4"]
    elements = torch.tensor(group.elements)
    around = (looks, encoder.layout, encoder.layout.find("rot4"), group)
    with torch.no_grad():
        z = torch.cat([look_around(encoder.backbone, part, *around) for part in images.split(500)])
    read = group.domain.nearest(recover(z, encoder.layout, "rot4").g.float(), elements)
    true = group.domain.nearest(group.from_parameter(torch.tensor([0.0, 90.0, 180.0, 270.0])), elements)
    return round(100 * float((read == true[turns]).float().mean()), 2)


def _look(encoder: Subject, images: Images) -> tuple[Tensor, Tensor, Tensor]:
    """All pixels, features and labels."""
    pixels, labels = zip(*images.in_order(500), strict=True)
    return torch.cat(pixels), torch.cat([encoder.features(part) for part in pixels]), torch.cat(labels)


def _turned(pixels: Tensor) -> Tensor:
    return torch.cat([torch.rot90(pixels, turn, (2, 3)) for turn in range(4)])


def _percent(predicted: Any, truth: Tensor) -> float:
    return round(100 * accuracy(predicted, truth.numpy()), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce/cpu"), help="a study's folder [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/views_apart.json"))
    args = parser.parse_args()
    figures = {}
    for run in runs():
        record = finished(args.runs, run) or compute(run, args.runs)
        encoder = duet.load(run_folder(args.runs, run))
        found = judge(encoder, *held_out(run))
        figures[run.labels["method"]] = {**found, "options": run.experiment.options, "run": record.key}
        print(run.labels["method"], found, flush=True)
        write(args.out, {"methods": figures})
    own, others = held_out(run)
    for name, rival in rivals_of(encoder, own, Sizes.centroids).items():
        figures[name] = judge(rival, own, others)
        print(name, figures[name], flush=True)
    write(args.out, {"methods": figures})


if __name__ == "__main__":
    main()
