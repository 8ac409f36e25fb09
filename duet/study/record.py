"""What is kept of a run: one JSON, from which all tables are drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from ..error import DuetError, first_line
from ..file import read_settings, write_json
from ..training.trained_images import checked_images
from .plan import WHERE, Run
from .renamed import rename_record

FORMAT = 2
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
    effort: str
    scalars: dict[str, float | None]
    intervals: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    whole: bool = True  # trained in one go, so that its seconds tell what such a run takes
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)  # on what it was trained, as far as that decides its bytes
    resolved: dict[str, Any] = field(default_factory=dict)
    """Settings that the run's config.yaml says otherwise, such as the precision that `auto` became."""
    images: dict[str, Any] = field(default_factory=dict)
    """Count and fingerprint of the images that were trained on, those of calibration left out; empty where unknown."""
    baselines: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Scalars of the baselines, by name."""
    beside_baselines: list[str] = field(default_factory=list)  # the evaluations that they took part in

    @property
    def key(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.hash}"

    def value(self, name: str) -> float | None:
        """A scalar, EVALUATION/SCALAR; None where it could not be measured."""
        found = self.scalars.get(name)
        return found if found is not None and math.isfinite(found) else None

    def answers(self, run: Run) -> bool:
        """Whether this is what a run would give: the same settings and all evaluations.

        A setting that is newer than the record must be at its default. Its images are compared where they are opened.
        """
        asked = run.experiment.to_dict()
        same = all(asked[key] == value for key, value in self.settings.items() if key in asked and key not in WHERE)
        same = same and run.changed.keys() <= self.settings.keys()
        tried = {name.split("/")[1] for name in self.scalars if name.startswith("transfer/")}
        there = set(run.evaluate) <= set(self.evaluate) and {PurePath(name).name for name in run.transfer} <= tried
        there = there and (not run.baselines or set(run.evaluate) <= set(self.beside_baselines))
        return same and self.effort == run.effort and there

    def joined(self, other: Record) -> Record:
        """This record with what another one of the same run has measured beside it."""
        names = self.baselines.keys() | other.baselines.keys()
        return replace(
            self,
            evaluate=list(dict.fromkeys([*self.evaluate, *other.evaluate])),
            beside_baselines=list(dict.fromkeys([*self.beside_baselines, *other.beside_baselines])),
            # Numbers of two trainings: on which images both were, is known only where it is known of each.
            images=self.images if self.images == other.images else {},
            baselines={
                name: {**other.baselines.get(name, {}), **self.baselines.get(name, {})} for name in sorted(names)
            },
            scalars={**other.scalars, **self.scalars},
            intervals={**other.intervals, **self.intervals},
        )

    def baseline(self, name: str) -> Record:
        """A baseline's numbers as a record of its own: with its name as the method, and no intervals."""
        return replace(
            self, labels={**self.labels, "method": name}, scalars=self.baselines[name], intervals={}, baselines={}
        )

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
    if not isinstance(plain, dict) or plain.get("format") not in (1, FORMAT):
        raise DuetError(f"{source} is not a record of a study, or of another version of duet")
    if plain["format"] == 1:
        plain = rename_record(plain)
    try:
        record = Record(**{key: value for key, value in plain.items() if key != "format"})
        for kept in (record.labels, record.settings, record.machine, record.resolved):
            kept.items()
        checked_images(record.images)
        numbers: list[Mapping[str, float | None]] = [record.scalars, record.seconds, *record.baselines.values()]
        for value in chain.from_iterable(own.values() for own in numbers):
            math.isfinite(0.0 if value is None else value)  # refuses what is no number
        return record
    except (TypeError, AttributeError, OverflowError) as error:
        raise DuetError(f"{source} does not hold a whole record: {first_line(error)}") from None


def read_records(out: Path) -> list[Record]:
    """All records of a study's folder, by name."""
    return [read_record(path) for path in sorted((out / FOLDER).glob("*.json"))]


def readable_records(out: Path) -> list[Record]:
    """All records of a folder that can be read, by name."""
    found = []
    for path in sorted((out / FOLDER).glob("*.json")):
        with suppress(DuetError):
            found.append(read_record(path))
    return found


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
    return record if record.answers(replace(run, evaluate=(), transfer=(), baselines=False)) else None
