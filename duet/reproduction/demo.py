"""The demo: train DUET and SimCLR on digits, evaluate both, and leave a table, pictures and a summary."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from ..data import Images
from ..evaluation import Result, evaluate, flatten
from ..experiment import Experiment, build_stack, from_dict, groups, open_data, preset
from ..file import whole_file
from ..pretraining import pretrain
from .figures import FIGURES

SUMMARY = (
    "recovery/median_error_degrees",
    "classification/logistic",
    "equivariance/row_minimum_within_one_bin",
    "equivariance/error_prescribed",
    "equivariance/error_fitted",
    "retrieval/hit1_prescribed",
    "retrieval/hit1_fitted",
    "retrieval/chance_hit1",
    "generation/reconstruction_error",
    "generation/action_error_prescribed",
    "generation/action_error_fitted",
    "generation/no_action_error",
)


def run_demo(out: Path, **changes: object) -> dict[str, object]:
    """Train, evaluate, draw; `changes` go to the recipe of both methods. Returns what summary.json holds."""
    console = Console()
    start = time.monotonic()
    duet = from_dict({**preset("demo"), **changes})
    out.mkdir(parents=True, exist_ok=True)
    draw_views(duet, open_data(duet)).savefig(out / "views.png", dpi=110)
    console.print(f"Digits turned by random angles: the views that the methods learn from are in {out / 'views.png'}")
    scores: dict[str, dict[str, float]] = {}
    for experiment in (duet, replace(duet, method="simclr")):
        run = out / experiment.method
        shutil.rmtree(run, ignore_errors=True)
        pretrain(experiment, run)
        results = evaluate(run)
        draw_results(results, run / "figures")
        scores[experiment.method] = flatten(results)
    summary: dict[str, object] = {
        method: {key: found[key] for key in SUMMARY if key in found} for method, found in scores.items()
    }
    summary["seconds"] = round(time.monotonic() - start, 1)
    write_json(summary, out / "summary.json")
    console.print(comparison(scores))
    console.print(
        f"{summary['seconds']:.0f} seconds. Pictures: {out / 'duet' / 'figures'}; numbers: {out / 'summary.json'}"
    )
    return summary


def draw_results(results: dict[str, Result], folder: Path) -> list[Path]:
    """Draw every figure that these results have, as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, result in results.items():
        for label, draw in FIGURES.get(name.split("-")[0], {}).items():
            try:
                figure = draw(result)
            except ValueError:  # a model without a table has no marginal to draw
                continue
            paths.append(folder / f"{name}-{label}.png")
            figure.savefig(paths[-1], dpi=110)
    return paths


def draw_views(experiment: Experiment, images: Images, columns: int = 10) -> Figure:
    """Pairs of views of a few images, each with the raw parameter that was drawn for it."""
    group = groups(experiment)[0]
    pixels = torch.stack([images[i] for i in range(columns)])
    generator = torch.Generator().manual_seed(experiment.seed)
    stack = build_stack(experiment)
    rows = [stack(pixels, generator) for _ in range(2)]
    figure = Figure(figsize=(1.0 * columns + 0.8, 3.9), layout="constrained")
    axes = figure.subplots(3, columns)
    for column in range(columns):
        shown = [(pixels[column].float() / 255, "image")]
        shown += [(view.images[column], _parameter(group, float(view.g[group.name][column]))) for view in rows]
        for axis, (picture, label) in zip(axes[:, column], shown, strict=True):
            axis.imshow(picture.permute(1, 2, 0).squeeze(2), cmap="gray", vmin=0, vmax=1)
            axis.set_title(label, fontsize=9, pad=2)
            axis.set_axis_off()
    return figure


def comparison(scores: dict[str, dict[str, float]]) -> Table:
    """The two methods side by side."""
    table = Table(title="On held-out digits")
    table.add_column("measure")
    for method in scores:
        table.add_column({"duet": "DUET", "simclr": "SimCLR"}.get(method, method), justify="right")
    for key, label in LABELS.items():
        values = [scores[method].get(key) for method in scores]
        if any(value is not None for value in values):
            table.add_row(label, *("-" if value is None else f"{value:.3g}" for value in values))
    return table


LABELS = {
    "classification/logistic": "logistic regression, accuracy",
    "classification/knn": "nearest neighbours, accuracy",
    "recovery/median_error_degrees": "recovered angle without a head, median error in degrees",
    "recovery/median_error_degrees_circle": "  seen through a disc",
    "recovery/probe_median_error_degrees": "angle by a linear probe, median error in degrees",
    "recovery/content_probe_median_error_degrees": "  from the content alone (it should not know)",
    "equivariance/error_prescribed": "equivariance error, the paper's T_g (no action: 1)",
    "equivariance/error_fitted": "equivariance error, fitted action",
    "equivariance/sensitivity": "  sensitivity (near 0: the features do not move)",
    "retrieval/hit1_prescribed": "Hit@1 of 50, the paper's T_g",
    "retrieval/hit1_fitted": "Hit@1 of 50, fitted action",
    "retrieval/chance_hit1": "  by chance",
    "generation/reconstruction_error": "decoded image, squared error",
    "generation/action_error_prescribed": "  after the paper's T_g",
    "generation/action_error_fitted": "  after the fitted action",
    "generation/no_action_error": "  without an action",
}


def write_json(values: dict[str, object], path: Path) -> None:
    """Write JSON, all or nothing."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n")


def _parameter(group: object, g: float) -> str:
    value = float(group.parameter(g))  # type: ignore[attr-defined]
    return f"{value:.0f}°" if group.unit == "degrees" else f"{value:.3g}"  # type: ignore[attr-defined]
