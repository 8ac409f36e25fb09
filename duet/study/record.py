"""What is kept of a run: one JSON, from which all tables are drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from ..error import DuetError, first_line
from ..file import read_settings, write_json
from .plan import WHERE, Run

FORMAT = 1
FOLDER = "results"
LATER = "later"
"""Among the seconds: of what was measured last, when the run had a record already."""


@dataclass(frozen=True)
class Record:
    """One finished run: what it was asked to be, what it reached, and what it took."""

    name: str
    hash: str
    labels: dict[str, str]
    settings: dict[str, Any]
    evaluate: list[str]
    sizes: str
    scalars: dict[str, float | None]
    intervals: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    whole: bool = True  # trained in one go, so that its seconds tell what such a run takes
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)  # on what it was trained, as far as that decides its bytes
    rivals: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Scalars of the baselines, by their name."""
    beside_rivals: list[str] = field(default_factory=list)  # the evaluations that they took part in

    @property
    def key(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.hash}"

    def value(self, name: str) -> float | None:
        """A scalar, EVALUATION/SCALAR; None where it could not be measured."""
        found = self.scalars.get(name)
        return found if found is not None and math.isfinite(found) else None

    def answers(self, run: Run) -> bool:
        """Whether this is what a run would give: the same settings, as far as both know them, and all evaluations."""
        asked = run.experiment.to_dict()
        same = all(asked[key] == value for key, value in self.settings.items() if key in asked and key not in WHERE)
        tried = {name.split("/")[1] for name in self.scalars if name.startswith("transfer/")}
        there = set(run.evaluate) <= set(self.evaluate) and {PurePath(name).name for name in run.transfer} <= tried
        there = there and (not run.rivals or set(run.evaluate) <= set(self.beside_rivals))
        return same and self.sizes == run.sizes and there

    def joined(self, other: Record) -> Record:
        """This record with what another one of the same run has measured beside it."""
        names = self.rivals.keys() | other.rivals.keys()
        return replace(
            self,
            evaluate=list(dict.fromkeys([*self.evaluate, *other.evaluate])),
            beside_rivals=list(dict.fromkeys([*self.beside_rivals, *other.beside_rivals])),
            rivals={name: {**other.rivals.get(name, {}), **self.rivals.get(name, {})} for name in sorted(names)},
            scalars={**other.scalars, **self.scalars},
            intervals={**other.intervals, **self.intervals},
        )

    def rival(self, name: str) -> Record:
        """A rival's numbers as a record of its own: with its name as the method, and no intervals."""
        return replace(self, labels={**self.labels, "method": name}, scalars=self.rivals[name], intervals={}, rivals={})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in the file."""
        return {"format": FORMAT, **asdict(self)}

    def save(self, out: Path) -> Path:
        """Write OUT/results/KEY.json."""
        path = out / FOLDER / f"{self.key}.json"
        write_json(path, self.to_dict())
        return path


def read_record(path: Path) -> Record:
    """The record of a file."""
    try:
        plain = json.loads(read_settings(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DuetError(f"cannot read the record {path}: {first_line(error)}") from None
    return record_of(plain, str(path))


def record_of(plain: Any, source: str) -> Record:
    """The record of plain values."""
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise DuetError(f"{source} is not a record of a study, or of another version of duet")
    try:
        record = Record(**{key: value for key, value in plain.items() if key != "format"})
        for kept in (record.labels, record.settings):
            kept.items()
        numbers: list[Mapping[str, float | None]] = [record.scalars, record.seconds, *record.rivals.values()]
        for value in chain.from_iterable(own.values() for own in numbers):
            math.isfinite(0.0 if value is None else value)  # refuses what is no number
        return record
    except (TypeError, AttributeError, OverflowError) as error:
        raise DuetError(f"{source} does not hold a whole record: {first_line(error)}") from None


def read_records(out: Path) -> list[Record]:
    """All records of a study's folder, by name."""
    return [read_record(path) for path in sorted((out / FOLDER).glob("*.json"))]


def finished(out: Path, run: Run) -> Record | None:
    """The record of a run, if it is finished; what is damaged or of other settings counts as none."""
    record = begun(out, run)
    return record if record is not None and record.answers(run) else None


def begun(out: Path, run: Run) -> Record | None:
    """The record of a run that may have been measured otherwise; None where it is damaged or of other settings."""
    path = out / FOLDER / f"{run.key}.json"
    if not path.exists():
        return None
    try:
        record = read_record(path)
    except DuetError:
        return None
    return record if record.answers(replace(run, evaluate=(), transfer=(), rivals=False)) else None
