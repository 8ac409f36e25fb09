"""What the paper's further figures share: runs of Table 2, measured once more, their numbers and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..evaluation import EVALUATIONS, Result
from ..evaluation.rival import RIVALS
from ..file import write_text
from ..study.computation import run_folder
from ..study.form import as_csv, as_latex, as_markdown
from ..study.record import Record, finished
from ..study.table import label_of, tabulate
from .accuracy import GROUPS
from .reproduction import Request
from .studied import Studied

METHODS = ("simclr", "essl", "essl-authors", "duet0", "duet", "duet-separate", *RIVALS)
"""The rows, in their order."""


class Measured(Studied):
    """Evaluations of some runs of Table 2. In one folder with it nothing is trained twice."""

    evaluate: ClassVar[tuple[str, ...]]
    scalars: ClassVar[tuple[str, ...]]
    """The numbers of which there is a table, methods by groups: EVALUATION/SCALAR."""
    groups: ClassVar[tuple[str, ...]] = ("rot360", "rot4", "hue")
    methods: ClassVar[tuple[str | Mapping[str, Any], ...]] = ("duet",)
    usual_seeds = 1

    def values(self, request: Request) -> dict[str, Any]:
        """The study's plain values, but for the seeds."""
        large = request.scale == "paper"
        return {
            "base": {"preset": request.preset, **({"data": "cifar10"} if large else {})},
            "vary": {"group": list(self.groups), "method": list(self.methods)},
            "evaluate": list(self.evaluate),
            "effort": "paper" if large else "standard",
        }

    def draw(self, request: Request) -> list[Path]:
        """A table of every scalar that any run has, and the figures of every run that keeps its results."""
        runs, out = self.study(request).runs, request.out
        records = [record for record in (finished(out, run) for run in runs) if record is not None]
        paths = self.tables(records, out, "method", "group")
        for run in runs:
            for name in self.evaluate:
                result = run_folder(out, run) / "results" / f"{name}.json"
                if result.exists():
                    paths += _figures(result, out / "figures" / self.name / run.name)
        return paths

    def seen(self, record: Record) -> Record:
        """A record with what a table shows of it."""
        return record

    def tables(self, records: Sequence[Record], out: Path, rows: str, columns: str) -> list[Path]:
        """One page of Markdown, NAME.md, and CSV and LaTeX of every scalar, baselines below; the page is named."""
        page = [f"# {self.name}: {self.summary}"]
        # Baselines are rows of their own; a setting that is swept says nothing of them.
        records = [
            self.seen(record) for record in [*records, *(rows_of_baselines(records) if rows == "method" else [])]
        ]
        for scalar in self.scalars:
            if any(record.value(scalar) is not None for record in records):
                table = tabulate(records, rows, columns, scalar, order={"group": GROUPS, "method": METHODS})
                path = out / f"{self.name}-{scalar.replace('/', '-')}"
                write_text(path.with_suffix(".csv"), as_csv(table))
                write_text(path.with_suffix(".tex"), as_latex(table))
                page.append(f"## {scalar}\n\n{as_markdown(table).rstrip()}")
        if len(page) == 1:
            return []
        path = out / f"{self.name}.md"
        write_text(path, "\n\n".join(page) + "\n")
        return [path]


def rows_of_baselines(records: Sequence[Record]) -> list[Record]:
    """The baselines as rows of their own, once for every group and seed: they do not depend on the method."""
    found: dict[tuple[str, str, str], Record] = {}
    for record in records:
        for name in record.baselines:
            found.setdefault((name, label_of(record, "group"), record.labels["seed"]), record.baseline(name))
    return list(found.values())


def _figures(result: Path, folder: Path) -> list[Path]:
    """The figures of one result, as PNG files."""
    found = []
    for label, figure in EVALUATIONS[result.stem].figures(Result.load(result)).items():
        folder.mkdir(parents=True, exist_ok=True)
        found.append(folder / f"{result.stem}-{label}.png")
        figure.savefig(found[-1], dpi=110)
    return found
