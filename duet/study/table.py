"""A table of a study, from its records alone: mean, standard deviation and number of seeds of every cell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scipy import stats

from ..error import DuetError, did_you_mean
from .plan import WHERE
from .record import Record

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation (n - 1) over seeds; of one seed there is no deviation."""

    mean: float
    std: float | None = None
    seeds: int = 1
    best: bool = False

    @classmethod
    def of(cls, values: Sequence[float]) -> Cell:
        """The cell of one value a seed."""
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean)
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
        return cls(mean, std, len(values))


@dataclass(frozen=True)
class Table:
    """Cells by row and column; `beside` are rows of others' numbers, which do not compete."""

    value: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    row_key: str = ""
    beside: dict[str, dict[str, Cell]] = field(default_factory=dict)

    def with_best(self, lowest: bool = False) -> Table:
        """Of every column the best row is marked, where the distance to the second exceeds its error."""
        sign = -1 if lowest else 1
        cells = dict(self.cells)
        for column in self.columns:
            ranked = sorted(
                (sign * cell.mean, row) for row in self.rows if (cell := cells.get((row, column))) is not None
            )
            if len(ranked) > 1:
                first, second = cells[ranked[-1][1], column], cells[ranked[-2][1], column]
                if separable(first, second):
                    cells[ranked[-1][1], column] = replace(first, best=True)
        return replace(self, cells=cells)

    def times(self, factor: float) -> Table:
        """All means and deviations times a factor, such as 100 for percent; not those beside."""

        def scaled(cell: Cell) -> Cell:
            return replace(cell, mean=factor * cell.mean, std=None if cell.std is None else factor * cell.std)

        return replace(self, cells={place: scaled(cell) for place, cell in self.cells.items()})

    def turned(self) -> Table:
        """Columns as rows; what is best stays what it was, and the rows beside are left out."""
        cells = {(column, row): cell for (row, column), cell in self.cells.items()}
        return replace(self, rows=self.columns, columns=self.rows, cells=cells, row_key="", beside={})

    def lines(self) -> list[tuple[str, list[Cell | None]]]:
        """Every row with its cells, each of others' numbers under ours of the same name."""
        found: list[tuple[str, list[Cell | None]]] = []
        for row in self.rows:
            found.append((row, [self.cells.get((row, column)) for column in self.columns]))
        for row, own in self.beside.items():
            found.append((row, [own.get(column) for column in self.columns]))
        return found


def separable(first: Cell, second: Cell) -> bool:
    """Whether two means differ by more than the error of their difference: Welch's 95 % interval over seeds."""
    if first.std is None or second.std is None:
        return False  # one seed says nothing of the spread of seeds
    parts = [cell.std**2 / cell.seeds for cell in (first, second) if cell.std is not None]
    error = math.sqrt(sum(parts))
    if error == 0:
        return first.mean != second.mean
    freedom = sum(parts) ** 2 / sum(p**2 / (c.seeds - 1) for p, c in zip(parts, (first, second), strict=True))
    return abs(first.mean - second.mean) > float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error


def tabulate(
    records: Iterable[Record],
    rows: str,
    columns: str,
    value: str,
    where: Mapping[str, str] | None = None,
    order: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """One number of every record, in a row and a column by what varies; `where` keeps some records only.

    `order` lists rows or columns, by their key, that come first and in that order.
    """
    kept = [r for r in records if all(label_of(r, key) == text for key, text in (where or {}).items())]
    if not kept:
        raise DuetError("no finished run is left for the table; `duet study run` computes them")
    known = {name: "" for record in kept for name in record.scalars}
    if value not in known:
        raise DuetError(f"no run has a value {value!r}{did_you_mean(value, known)}; there are {', '.join(known)}")
    places: dict[tuple[str, str], list[Record]] = {}
    for record in kept:
        if record.value(value) is not None:
            places.setdefault((label_of(record, rows), label_of(record, columns)), []).append(record)
    cells = {}
    for place, together in places.items():
        _check_same(place, together)
        cells[place] = Cell.of([float(record.value(value) or 0.0) for record in together])
    order = order or {}
    names = [_ordered({place[axis] for place in cells}, order.get(key, ())) for axis, key in enumerate((rows, columns))]
    return Table(value, names[0], names[1], cells, rows)


def label_of(record: Record, key: str) -> str:
    """The name of a record's value: as the study names it, else as it stands in its settings."""
    if key in record.labels:
        return str(record.labels[key])
    if key in record.settings:
        return _written(record.settings[key])
    hint = did_you_mean(key, [*record.labels, *record.settings])
    raise DuetError(f"{record.name} has no {key!r}{hint}; what varies is {', '.join(record.labels)}")


def _check_same(place: tuple[str, str], records: Sequence[Record]) -> None:
    """Refuse to average over anything but seeds."""
    first = records[0].settings
    for record in records[1:]:
        keys = [key for key in first if key in record.settings and key not in (*WHERE, "seed")]
        for key in keys:
            if record.settings[key] != first[key]:
                example = f"--where {key}={_written(record.settings[key])}"
                raise DuetError(f"the runs of {' '.join(place)} differ in {key}, not in seeds alone; choose: {example}")
        _check_same_images(place, records[0], record)


def _check_same_images(place: tuple[str, str], first: Record, second: Record) -> None:
    """Refuse to average over sets of images; another seed may draw another subset, but one of the same size."""
    if not first.images or not second.images:
        return
    drawn = first.settings.get("subset") is not None
    if first.images != second.images and not (drawn and first.images["count"] == second.images["count"]):
        raise DuetError(
            f"the runs of {' '.join(place)} are of other images: {first.name} of {first.images['count']} "
            f"({first.images['fingerprint']}), {second.name} of {second.images['count']} "
            f"({second.images['fingerprint']}); move the records of one set away"
        )


def _written(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _ordered(names: set[str], first: Sequence[str]) -> tuple[str, ...]:
    """Names in the order that is asked for, then by letters, numbers in them by size."""

    def natural(name: str) -> list[tuple[int, float, str]]:
        parts = re.findall(r"\d+(?:\.\d+)?|\D+", name)
        return [(0, float(p), "") if p[0].isdigit() else (1, 0.0, p) for p in parts]

    return (*(name for name in first if name in names), *sorted(names - set(first), key=natural))
