"""The best unlabelled encoder of CIFAR-10 in an hour of two cores, beside SimCLR and ESSL of the same hour."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ..error import DuetError
from ..evaluation.rival import RIVALS
from ..figure import new_figure, without_frame
from ..file import whole_file, write_text
from ..study.form import as_csv, as_markdown
from ..study.record import Record, finished
from ..study.table import Cell, Table
from ..training.recipe import preset
from .measured import rows_of_baselines
from .reproduction import Request, register
from .rrc_plus_one import MEASURED
from .studied import Studied

COSTS = {"simclr": 1 / 1.13, "essl": 1.20 / 1.13}
"""A step over DUET's, as measured: so each method has the epochs that fit into the preset's time."""
LONGER: dict[str, Any] = {"name": "duet-two-hours", "method": "duet"}
"""The preset with twice its epochs; a run that is stopped is resumed, so its hours need not be in one piece."""
COLUMNS = {
    "class, linear, %": ("classification/logistic", 100.0),
    "class, tracking head, %": ("classification/head", 100.0),
    "class, nearest neighbours, %": ("classification/knn", 100.0),
    "angle, table, degrees": ("recovery/median_error_degrees", 1.0),
    "angle, linear probe, degrees": ("recovery/probe_median_error_degrees", 1.0),
    "RankMe": ("rank/rankme", 1.0),
}


@register
class CifarBest(Studied):
    """The preset `cifar-best` and its rivals of the same cost."""

    name = "cifar-best"
    summary = "the preset cifar-best beside SimCLR and ESSL of the same hour: class and angle on CIFAR-10"
    usual_seeds = 1
    apart = True
    titles: ClassVar[Mapping[str, str]] = {
        **{"duet-two-hours": "DUET, two hours", "duet": "DUET", "simclr": "SimCLR", "essl": "ESSL"},
        "simclr-cifar": "SimCLR, the epochs of preset cifar",
        **RIVALS,
    }

    def values(self, request: Request) -> dict[str, Any]:
        """One run of each. SimCLR does without the rotation, which names more classes than being told to ignore it."""
        epochs = preset("cifar-best")["epochs"]
        simclr, essl = (
            {"name": name, "method": name, "epochs": round(epochs / cost), "options": options}
            for (name, cost), options in zip(COSTS.items(), ({"leave_out": True}, {}), strict=True)
        )
        shorter = {**simclr, "name": "simclr-cifar", "epochs": preset("cifar")["epochs"]}
        return {
            "base": {"preset": "cifar-best"},
            "vary": {"method": ["duet", shorter, simclr, essl, {**LONGER, "epochs": 2 * epochs}]},
            "evaluate": list(MEASURED),
            "baselines": True,
        }

    def draw(self, request: Request) -> list[Path]:
        """A table of methods and baselines, the best class first, and class against angle as a picture."""
        records = [finished(request.out, run) for run in self.study(request).runs]
        there = [record for record in records if record is not None]
        if not there:
            raise DuetError(f"no run of {self.name} is finished in {request.out}")
        table = self.table([*there, *rows_of_baselines(there)])
        stem = request.out / self.name
        write_text(stem.with_suffix(".csv"), as_csv(table))
        write_text(stem.with_suffix(".md"), f"# {self.name}: {self.summary}\n\n{as_markdown(table)}")
        with whole_file(stem.with_suffix(".png")) as partial:
            self.picture(table).savefig(partial, dpi=130)
        return [stem.with_suffix(ending) for ending in (".csv", ".md", ".png")]

    def table(self, records: list[Record]) -> Table:
        """A row a method, a column a measure; whoever names the most classes comes first."""
        cells = {}
        order: dict[str, float] = {}
        for record in records:
            row = self.titles.get(record.labels["method"], record.labels["method"])
            for column, (scalar, factor) in COLUMNS.items():
                value = record.value(scalar)
                if value is not None:
                    cells[row, column] = Cell(factor * value)
            order[row] = record.value("classification/logistic") or 0.0
        rows = tuple(sorted(order, key=lambda row: -order[row]))
        return Table("CIFAR-10, 10,000 test images", rows, tuple(COLUMNS), cells, "encoder")

    def picture(self, table: Table) -> Any:
        """Class against angle by a linear probe; the best place is at the upper left."""
        figure = new_figure(5.6, 4.0)
        axes = figure.subplots()
        class_of, angle_of = "class, linear, %", "angle, linear probe, degrees"
        for row in table.rows:
            place = table.cells.get((row, angle_of)), table.cells.get((row, class_of))
            if place[0] is not None and place[1] is not None:
                axes.scatter(place[0].mean, place[1].mean, s=24)
                axes.annotate(
                    row, (place[0].mean, place[1].mean), textcoords="offset points", xytext=(5, 3), fontsize=8
                )
        axes.set_xlabel("error of the angle, median degrees (linear probe)")
        axes.set_ylabel("images named by a linear classifier, %")
        axes.grid(alpha=0.3)
        return without_frame(figure)
