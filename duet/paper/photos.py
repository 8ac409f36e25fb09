"""The shipped model of photos: trained, measured on photos that it never saw, beside what must be beaten."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..data import Images, open_images
from ..error import DuetError
from ..file import write_json, write_text
from ..groups import Group
from ..model import Encoder, load
from ..training.calibration import keep_aside
from ..training.experiment import Experiment, open_data
from ..training.run import train
from .reproduction import Reproduction, Request, register
from .upright import Readings, by_kind, hardest, of_model, read_turned
from .upright_drawing import draw_readings, draw_worst
from .upright_rivals import angle_probe, looking, quarter_probe

DATA = "photos128"
METHODS = ("duet", "simclr")
LOOKS = (1, 4)
ROWS = {
    "duet": "DUET, {} look{}",
    "simclr": "SimCLR and a linear probe, {} look{}",
    "probe": "four-way linear probe of the trunk, {} look{}",
}
CHANCE = {"median_degrees": 90.0, "within_45": 0.25, "surest_median_degrees": 90.0, "surest_within_45": 0.25}
REFERENCES = (
    "Supervised systems, as they report themselves: 98.8 % of quarter turns after 189,000 labelled photos and hours of "
    "an H100; 0.55 degrees (median) on COCO."
)


@register
class Photos(Reproduction):
    """The model that the package ships, from the photos to its table."""

    name = "photos-rot360"
    apart = True
    summary = "the shipped model that turns photos upright: trained on photos128 and measured beside its rivals"

    def run(self, request: Request) -> None:
        """Train, measure, draw; the seed is the shipped model's own, and there is one scale."""
        if request.scale != "cpu" or request.only or request.draw_only or request.seeds is not None:
            raise DuetError(
                "photos-rot360 is one model of one scale and seed: leave out --scale, --seeds, --only, --draw"
            )
        if request.dry:
            experiment = recipe()
            print("\n".join(command(experiment, method) for method in METHODS))
            print("DUET takes about 20 minutes on one core; SimCLR and the measuring come on top", file=sys.stderr)
            return
        print(table(reproduce_photos(request.out, device=request.device)))
        print(f"the model is in {request.out / 'model'}, pictures and numbers beside it")


def recipe(data: str = DATA, **changes: Any) -> Experiment:
    """How it is trained."""
    return Experiment.preset("photos", data=data, **changes)


def reproduce_photos(out: Path, data: str = DATA, device: str = "auto", **changes: Any) -> dict[str, Any]:
    """Train DUET and SimCLR, measure them and the probes, and leave the model, a table, figures and the numbers.

    What is there already is not done again. Returns what photos-rot360.json holds.
    """
    experiment = recipe(data, **changes)
    for method in METHODS:
        if not (out / method / "model" / "config.json").exists():
            train(_of(experiment, method), out / method, device=device)
    load(out / "duet", device).save(out / "model", public=True, half=True)
    # What is measured is what is shipped.
    encoders = {looks: load(out / "model", device, turns=looks) for looks in LOOKS}
    test = _test_images(experiment)
    found = measure(encoders, load(out / "simclr", device), experiment, test)
    readings = found.pop("readings")
    if test.labels is not None and test.classes is not None:
        found["kinds"] = {
            turned: {kind: own.scalars() for kind, own in by_kind(readings[turned], test.labels, test.classes).items()}
            for turned in readings
        }
        found["hardest"] = hardest(readings["any"], test.labels, test.classes)
    found |= {"command": command(experiment), "seed": experiment.seed, "data": experiment.data, "version": __version__}
    write_json(out / "photos-rot360.json", found)
    write_text(out / "photos-rot360.md", table(found))
    group = _group(experiment)
    draw_worst(readings["any"].worst(24), test, group).savefig(out / "worst.png", dpi=110)
    draw_readings(readings["any"]).savefig(out / "angles.png", dpi=110)
    return found


def measure(encoders: Mapping[int, Encoder], rival: Encoder, experiment: Experiment, test: Images) -> dict[str, Any]:
    """Everything that is told of the test images: numbers by reader and by how they were turned, and DUET's readings.

    Every reader sees the same turned images; the probes are told the angles of the images that DUET was trained on.
    """
    group = _group(experiment)
    kept = keep_aside(open_data(experiment), experiment.calibrates, experiment.batch_size)
    trunk = encoders[1].backbone.trunk
    if trunk is None or kept.aside is None:
        raise DuetError("photos-rot360 is a model on a trunk, calibrated on images kept aside: train it so")
    scores = {
        "simclr": angle_probe(rival, kept.trained, group, experiment.seed),
        "probe": quarter_probe(trunk, kept.trained, kept.aside, group),
    }
    numbers: dict[str, Any] = {}
    readings: dict[str, Readings] = {}
    for name in ROWS:
        for looks in LOOKS:
            read = of_model(encoders[looks]) if name == "duet" else looking(scores[name], looks)
            for turned in ("any", "quarters"):
                own = read_turned(read, test, group, turned == "quarters", experiment.seed)
                numbers.setdefault(f"{name} {looks}", {})[turned] = own.scalars()
                if name == "duet" and looks == experiment.turns:
                    readings[turned] = own
    return {"numbers": numbers, "looks": experiment.turns, "images": len(test), "readings": readings}


def table(found: Mapping[str, Any]) -> str:
    """The numbers as Markdown: every reader beside chance, then the kinds of images, then where it fails most."""
    lines = [
        "| | any angle: median | within 45° | surest four fifths | quarter turns: right | surest four fifths |",
        "|---|---|---|---|---|---|",
        _row("chance", CHANCE, CHANCE),
    ]
    for key, turned in found["numbers"].items():
        name, looks = key.split()
        lines.append(_row(_words(name, int(looks)), turned["any"], turned["quarters"]))
    if "kinds" in found:
        lines += [
            _row(f"{_words('duet', found['looks'])}, of {kind} photos", own, found["kinds"]["quarters"][kind])
            for kind, own in found["kinds"]["any"].items()
        ]
    lines += ["", REFERENCES]
    if "hardest" in found:
        worst = ", ".join(
            f"{row['class']} ({100 * row['within_45']:.0f} % of {row['images']})" for row in found["hardest"][:8]
        )
        lines += ["", f"Least often within 45 degrees: {worst}."]
    return "\n".join([*lines, "", f"`{found['command']}`", ""])


def command(experiment: Experiment, method: str = "duet") -> str:
    """The command that trains the model, or its rival."""
    own = _of(experiment, method)
    words = ["duet", "train", "--preset", "photos", "--data", own.data, "--seed", str(own.seed)]
    return shlex.join(words if method == "duet" else [*words, "--method", method, "--turns", str(own.turns)])


def _of(experiment: Experiment, method: str) -> Experiment:
    """The same recipe for another method, which has no table to turn back."""
    return experiment if method == "duet" else replace(experiment, method=method, weight=None, turns=1)


def _words(name: str, looks: int) -> str:
    return ROWS[name].format({1: "one", 4: "four"}.get(looks, looks), "" if looks == 1 else "s")


def _row(name: str, free: Mapping[str, float], quarters: Mapping[str, float]) -> str:
    cells = [
        f"{free['median_degrees']:.1f}°",
        *(f"{100 * free[key]:.1f} %" for key in ("within_45", "surest_within_45")),
    ]
    cells += [f"{100 * quarters[key]:.1f} %" for key in ("within_45", "surest_within_45")]
    return f"| {name} | {' | '.join(cells)} |"


def _group(experiment: Experiment) -> Group:
    (group,) = experiment.groups
    return group


def _test_images(experiment: Experiment) -> Images:
    return open_images(
        experiment.data,
        "test",
        image_size=experiment.image_size,
        channels=experiment.channels,
        storage=experiment.storage,
    )
