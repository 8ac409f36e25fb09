"""Figures 9 and 10 of the paper and its choice of targets: sigma, lambda, the columns, Gaussian against von Mises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..figure import COLOURS, new_figure, without_frame
from ..study.plan import Study, expand
from ..study.record import Record, finished
from .measured import Measured
from .reproduction import Request, register

SIGMAS = (0.05, 0.1, 0.2, 0.5, 1.0, 10.0)
WEIGHTS = (1.0, 10.0, 100.0, 1000.0)
BINS = (4, 8, 16)
SWEEPS: dict[str, tuple[float | int, ...]] = {"sigma": SIGMAS, "weight": WEIGHTS, "bins": BINS}
GAUSSIAN = {"name": "gaussian", "target": "gaussian"}


@register
class Sweeps(Measured):
    """DUET with one setting changed at a time."""

    name = "sweeps"
    summary = "Figures 9 and 10: DUET's accuracy over sigma, lambda and G; Gaussian against von Mises"
    evaluate = ("classification",)
    scalars = ("classification/logistic",)
    groups = ("rot360", "rot4", "hue")

    def study(self, request: Request) -> Study:
        """The runs of Table 2 first, then those with one setting changed, but for what is the usual already."""
        usual = super().study(request).runs
        values = self.values(request)
        changed = [{"name": f"{key}{value:g}", key: value} for key, swept in SWEEPS.items() for value in swept]
        vary = {"seed": list(range(self.seeds(request))), **values["vary"], "change": [*changed, GAUSSIAN]}
        # Quarter turns are there for the target's sake alone, which colours have no choice of.
        skip = [
            {"group": "rot4", "change": [str(item["name"]) for item in changed]},
            {"group": "hue", "change": "gaussian"},
        ]
        found = expand({**values, "vary": vary, "skip": skip}, self.name, self.name).runs
        known = {run.hash for run in usual}
        return Study(self.name, (*usual, *(run for run in found if run.hash not in known)))

    def draw(self, request: Request) -> list[Path]:
        """Changes by groups as a table, and every sweep as a picture."""
        out = request.out
        found = [record for record in (finished(out, run) for run in self.study(request).runs) if record is not None]
        records = [replace(record, labels={"change": "usual", **record.labels}) for record in found]
        paths = self.tables(records, out, "change", "group")
        for key in SWEEPS:
            figure = draw_sweep(records, key)
            if figure is not None:
                paths.append(out / f"{self.name}-{key}.png")
                figure.savefig(paths[-1], dpi=110)
        return paths


def draw_sweep(records: Sequence[Record], key: str) -> Any:
    """Accuracy over one setting, a line a group, the mean over seeds; None where fewer than two values are there."""
    found: dict[str, dict[float, list[float]]] = {}
    for record in records:
        value = record.value("classification/logistic")
        if value is not None and record.labels["change"].startswith(("usual", key)):
            own = found.setdefault(record.labels["group"], {})
            own.setdefault(float(record.settings[key]), []).append(100 * value)
    lines = {group: own for group, own in found.items() if len(own) > 1}
    if not lines:
        return None
    figure = new_figure(4.5, 3)
    axis = figure.subplots()
    for colour, (group, own) in zip(COLOURS, sorted(lines.items()), strict=False):
        places = sorted(own)
        axis.plot(places, [sum(own[x]) / len(own[x]) for x in places], "o-", color=colour, label=group)
    axis.set_xscale("log")
    axis.set_xlabel({"weight": "lambda", "bins": "columns G"}.get(key, key))
    axis.set_ylabel("logistic regression, percent right")
    axis.legend()
    return without_frame(figure)
