"""What the paper's tables of accuracy share: a study of methods by groups, drawn with the paper's own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ..error import DuetError
from ..file import write_text
from ..study.drawing import save_table
from ..study.form import as_csv, as_latex, as_markdown
from ..study.record import Record, finished
from ..study.table import Cell, Table, label_of, tabulate
from .reproduction import Request
from .studied import Studied

GROUPS = (
    *("scale", "rot360", "rot4", "hflip", "vflip"),
    *("grayscale", "brightness", "contrast", "saturation", "hue"),
)
"""The columns of the paper's tables, in their order; its RRC is our scale."""
DUET_0: dict[str, Any] = {"name": "duet0", "method": "duet", "weight": 0}
SEPARATE: dict[str, Any] = {"name": "duet-separate", "method": "duet", "options": {"views": "separate"}}
"""DUET whose content is not contrasted across the transformation that the table keeps: ours, not the paper's."""
LATE: dict[str, Any] = {
    "name": "duet-late",
    "method": "duet",
    "options": {"views": "separate", "full": 1.0, "full_from": 0.67},
}
"""The same, with extra views of full size in the last third: chosen on training images that no run trains on."""
ESSL_AUTHORS: dict[str, Any] = {"name": "essl-authors", "method": "essl", "options": {"targets": "authors"}}
NO_CROP_LEFT = {"method": ["essl", "duet-separate"], "group": "scale"}
"""Methods that leave the group out of the stack: without scale there would be no crop."""
SAME_TARGETS = {"method": "essl-authors", "group": ["scale", "rot4", "hflip", "vflip", "grayscale"]}
"""Where the authors' targets are ours, or ESSL has none."""
Numbers = Mapping[str, Mapping[str, Cell]]


class Accuracy(Studied):
    """A table of accuracies, methods by groups, for every set of images."""

    value: ClassVar[Mapping[str, str]] = {
        **{"cpu": "classification/logistic", "cifar": "classification/logistic"},
        "paper": "classification/head",
    }
    paper: ClassVar[Mapping[str, Numbers]]
    """The paper's percentages: by set, method, group."""
    nearest: ClassVar[str]
    """The set whose numbers of the paper stand beside those that it has none for."""
    titles: ClassVar[Mapping[str, str]]
    """The rows, in their order, in words."""

    def draw(self, request: Request) -> list[Path]:
        """The tables of all runs that are finished, one for every set: CSV, Markdown, LaTeX and PNG."""
        records = [finished(request.out, run) for run in self.study(request).runs]
        there = [record for record in records if record is not None]
        if not there:
            raise DuetError(f"no run of {self.name} is finished in {request.out}")
        paths = []
        for data in dict.fromkeys(label_of(record, "data") for record in there):
            table = self.table([r for r in there if label_of(r, "data") == data], request.scale, data)
            path = request.out / f"{self.name}-{data}"
            title = f"{self.name}, {data}, scale {request.scale}: percent right"
            for ending, text in (
                ("csv", as_csv(table)),
                ("md", f"# {title}\n\n{as_markdown(table)}"),
                ("tex", as_latex(table)),
            ):
                write_text(path.with_suffix(f".{ending}"), text)
                paths.append(path.with_suffix(f".{ending}"))
            save_table(table, path.with_suffix(".png"), title)
            paths.append(path.with_suffix(".png"))
        return paths

    def table(self, records: Sequence[Record], scale: str, data: str) -> Table:
        """Ours in percent, and the paper's rows beside."""
        order = {"method": list(self.titles), "group": GROUPS}
        table = tabulate(records, "method", "group", self.value[scale], order=order).with_best().times(100)
        source = data if data in self.paper else self.nearest
        shown = {f"{self.titles[row]} (paper, {source})": dict(own) for row, own in self.paper[source].items()}
        rows = {row: self.titles.get(row, row) for row in table.rows}
        cells = {(rows[row], column): cell for (row, column), cell in table.cells.items()}
        return replace(table, rows=tuple(rows.values()), cells=cells, beside=shown)


def numbers(text: str) -> Numbers:
    """The paper's numbers: a line a method, a mean and a deviation for every group, a dash where there is none."""
    found: dict[str, dict[str, Cell]] = {}
    for line in text.strip().splitlines():
        method, *pairs = line.split()
        cells = {}
        for group, pair in zip(GROUPS, pairs, strict=True):
            if pair != "-":
                mean, std = pair.split("/")
                cells[group] = Cell(float(mean), float(std), 3)
        found[method] = cells
    return found
