"""The demo: train DUET and SimCLR on digits, evaluate both, and leave a table, pictures and a summary."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from ..data import Images
from ..error import DuetError
from ..evaluation import EVALUATIONS, Result, evaluate
from ..evaluation.generation import Generation
from ..evaluation.rival import RIVALS
from ..evaluation.spectrum import draw_purities
from ..evaluation.suite import find_evaluations
from ..evaluation.verdict import judge, say
from ..figure import new_figure
from ..file import write_json
from ..methods import find_method
from ..training.experiment import Experiment, build_stack, open_data
from ..training.run import train

COMPARED = ("duet", "simclr")


def run_demo(out: Path, device: str = "auto", **changes: Any) -> dict[str, Any]:
    """Train, evaluate, draw; `changes` go to the recipe of both methods. Returns what summary.json holds."""
    console = Console()
    start = time.monotonic()
    recipe = Experiment.preset("demo", **changes)
    out.mkdir(parents=True, exist_ok=True)
    draw_views(recipe, open_data(recipe)).savefig(out / "views.png", dpi=110)
    console.print(f"Digits turned by random angles: the views that the methods learn from are in {out / 'views.png'}")
    results: dict[str, dict[str, Result]] = {}
    for name in COMPARED:
        run = out / name
        if run.exists() and not (run / "config.yaml").exists():
            raise DuetError(f"{run} is not a run; the demo would replace it: choose another --out")
        shutil.rmtree(run, ignore_errors=True)
        train(recipe if name == recipe.method else replace(recipe, method=name, weight=None), run, device=device)
        # Both have the same network and images, and so the same rivals. Only DUET's features are decoded.
        measured = [key for key in find_evaluations(None) if name == recipe.method or key != Generation.name]
        results[name] = evaluate(run, measured, device=device, rivals=out / "rivals")
        draw_results(results[name], run / "figures")
    results |= {name: load_results(out / "rivals" / name) for name in RIVALS}
    draw_spectra(results).savefig(out / "spectrum.png", dpi=110)
    summary: dict[str, Any] = {name: summarise(found) for name, found in results.items()}
    summary["seconds"] = round(time.monotonic() - start, 1)
    write_json(out / "summary.json", summary)
    console.print(comparison(results))
    for verdict in filter(None, map(judge, results["duet"].values())):
        console.print(say(verdict), highlight=False)
    console.print(f"{summary['seconds']:.0f} seconds. All numbers are in {out / 'summary.json'}")
    return summary


def load_results(folder: Path) -> dict[str, Result]:
    """The results in a folder, by name, in the order of their evaluations."""
    found = {path.stem: Result.load(path) for path in folder.glob("*.json")}
    return {name: found[name] for name in EVALUATIONS if name in found}


def draw_spectra(results: Mapping[str, Mapping[str, Result]]) -> Figure:
    """The purities of every encoder that has a spectrum, in one picture."""
    return draw_purities({_title(name): found["spectrum"] for name, found in results.items() if "spectrum" in found})


def summarise(results: Mapping[str, Result]) -> dict[str, float]:
    """The scalars that each evaluation would show in a table of several encoders: EVALUATION/SCALAR -> number."""
    return {
        f"{name}/{key}": result.scalars[key]
        for name, result in results.items()
        if name in EVALUATIONS
        for key in EVALUATIONS[name].summary(result)
    }


def comparison(results: Mapping[str, Mapping[str, Result]]) -> Table:
    """The methods and their rivals side by side: a row for every number that an evaluation would show of any."""
    table = Table(title="On held-out digits", caption="±: half of the 95 % interval over images", box=SIMPLE)
    table.add_column("measure")
    for name in results:
        table.add_column(name if name in RIVALS else _title(name), justify="right", no_wrap=True)
    for name, evaluation in EVALUATIONS.items():
        having = [found[name] for found in results.values() if name in found]
        labels = {key: text for result in having for key, text in evaluation.summary(result).items()}
        for key, text in labels.items():
            cells = [_cell(found.get(name), key, sure=who not in RIVALS) for who, found in results.items()]
            table.add_row(text, *cells)
    return table


def _cell(result: Result | None, key: str, sure: bool) -> str:
    """A value, and half of its interval if it is wanted: both ends of all would make the table too wide."""
    if result is None or key not in result.scalars:
        return "-"
    ends = result.intervals.get(key) if sure else None
    half = "" if ends is None else f"±{(ends[1] - ends[0]) / 2:.1g}"
    return f"{result.scalars[key]:.3g}{half}"


def _title(name: str) -> str:
    return RIVALS.get(name) or find_method(name).title


def draw_results(results: Mapping[str, Result], folder: Path) -> list[Path]:
    """Draw every figure that these results have, as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, result in results.items():
        evaluation = EVALUATIONS[name.partition("-")[0]]
        for label, figure in evaluation.figures(result).items():
            paths.append(folder / f"{name}-{label}.png")
            figure.savefig(paths[-1], dpi=110)
    return paths


def draw_views(experiment: Experiment, images: Images, columns: int = 10) -> Figure:
    """Pairs of views of a few images, each with the raw parameter that was drawn for it."""
    group = experiment.groups[0]
    pixels = torch.stack([images[i] for i in range(columns)])
    generator = torch.Generator().manual_seed(experiment.seed)
    stack = build_stack(experiment)
    rows = [stack(pixels, generator) for _ in range(2)]
    figure = new_figure(1.0 * columns + 0.8, 3.9)
    axes = figure.subplots(3, columns)
    for column in range(columns):
        shown = [(pixels[column].float() / 255, "image")]
        for view in rows:
            value = float(group.parameter(float(view.g[group.name][column])))
            shown.append((view.images[column], group.write(value, digits=0)))
        for axis, (picture, label) in zip(axes[:, column], shown, strict=True):
            axis.imshow(picture.permute(1, 2, 0).squeeze(2), cmap="gray", vmin=0, vmax=1)
            axis.set_title(label, fontsize=9, pad=2)
            axis.set_axis_off()
    return figure
