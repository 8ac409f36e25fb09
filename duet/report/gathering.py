"""A run's folder, read for the page. It may be a stranger's, or half written: what cannot be read becomes a note."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from ..error import DuetError, printable
from ..evaluation import Result
from ..evaluation.result import Array
from ..file import does_not_exist
from ..training.recipe import read_yaml
from .wording import rank

LONGEST = 120
"""Characters of a value that are shown."""
LARGEST = 50_000_000
"""Bytes of a text file that is still read."""


@dataclass(frozen=True)
class Run:
    """What a run's folder holds; `notes` says what is missing or damaged."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Array] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    split: str = ""
    """How many images trained, calibrated and tested it, in words."""
    unfinished: bool = False


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Every run, each under a name of its own."""
    if not folders:
        raise DuetError("a report needs at least one run")
    return [read_run(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]


def read_run(folder: Path, name: str) -> Run:
    """The configuration, the losses and the results of a run's folder, as far as they can be read."""
    if not folder.exists():
        raise DuetError(does_not_exist(folder))
    if not folder.is_dir():
        raise DuetError(f"{folder} is not a run's folder")
    results = folder / "results"
    if not any((folder / part).exists() for part in ("config.yaml", "config.json", "model", "metrics.csv", "results")):
        # Results that `duet evaluate --out` wrote stand in the folder itself.
        if not any(_is_result(path) for path in folder.glob("*.json")):
            raise DuetError(f"{folder} holds no run: no config.yaml, model, metrics.csv or results")
        return _bare_results(folder, name)
    notes: list[str] = []
    model = _model(folder, notes)
    finished = any((folder / place).exists() for place in ("model/config.json", "config.json"))
    return Run(
        name=name,
        config=_config(folder, model, notes),
        layout=_mapping(model.get("layout")),
        metrics=_metrics(folder / "metrics.csv", notes),
        results=_results(results, notes),
        notes=tuple(notes),
        split=shown(_mapping(model.get("provenance")).get("split") or ""),
        unfinished=not finished,
    )


def _bare_results(folder: Path, name: str) -> Run:
    """Results without a run: what was measured says whose they are."""
    notes: list[str] = []
    results = _results(folder, notes)
    told = next((result.provenance for result in results.values()), {})
    keys = {"method": "method", "group": "group", "data": "data", "epochs": "epochs"}
    config = {key: told[source] for key, source in keys.items() if told.get(source) is not None}
    if isinstance(config.get("group"), str):
        config["group"] = [config["group"]]
    return Run(name=name, config=config, layout=_mapping(told.get("layout")), results=results, notes=tuple(notes))


def _is_result(path: Path) -> bool:
    try:
        return "arrays_sha256" in _mapping(json.loads(_text(path)))
    except Exception:  # a stranger's file
        return False


def shown(value: Any) -> str:
    """A value of a configuration as text: short, and of a path only its last part."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.6g}" if isinstance(value, float) else str(value)[:LONGEST]
    if isinstance(value, str):
        # Folders tell who trained where, which is nobody's business.
        absolute = PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()
        text = (PureWindowsPath(value).name if absolute else value) or value
        text = printable(text[: LONGEST + 1])
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    # Not str(value): a few lines of YAML can stand for more text than fits in memory.
    if isinstance(value, list | tuple) and not any(isinstance(v, list | tuple | dict) for v in value):
        return ", ".join(shown(v) for v in value[:16]) + (", …" if len(value) > 16 else "")
    if isinstance(value, dict) and not any(isinstance(v, list | tuple | dict) for v in value.values()):
        return ", ".join(f"{shown(k)}={shown(v)}" for k, v in list(value.items())[:16]) or "none"
    return "(not shown)"


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' names, with as many of the folders above as tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, 1 + max(map(len, parts))):
        names = [printable("/".join(part[-depth:])) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return [name if names.index(name) == i else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _model(folder: Path, notes: list[str]) -> dict[str, Any]:
    path = next((p for p in (folder / "model" / "config.json", folder / "config.json") if p.exists()), None)
    if path is None:
        notes.append("The run has no model: it is not finished.")
        return {}
    try:
        return _mapping(json.loads(_text(path)))
    except Exception:  # damaged JSON can fail in many ways, and none of them should cost the page
        notes.append("model/config.json cannot be read.")
        return {}


def _config(folder: Path, model: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    try:
        _text(folder / "config.yaml")
        values = read_yaml(folder / "config.yaml")
    except Exception:  # as above
        provenance = _mapping(model.get("provenance"))
        data = _mapping(provenance.get("data"))
        values = {"method": provenance.get("method"), "data": data.get("source"), "epochs": provenance.get("epochs")}
        values = {key: value for key, value in values.items() if value is not None}
        groups = [g.get("name") for g in _sequence(model.get("groups")) if isinstance(g, dict)]
        values |= {"group": groups} if groups else {}
        if not values:
            notes.append("config.yaml is missing or cannot be read.")
    return {str(key): value for key, value in values.items()}


def _metrics(path: Path, notes: list[str]) -> dict[str, Array]:
    """The columns of a CSV file of numbers; what is no number is NaN, and columns without any are left out."""
    try:
        rows = list(csv.reader(_text(path).splitlines()))
        header, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
        columns = {name: np.array([_number(row[i]) for row in body]) for i, name in enumerate(header)}
    except Exception:  # as above
        if path.exists() or (path.parent / "config.yaml").exists():
            notes.append("metrics.csv is missing or cannot be read: no losses to draw.")
        return {}
    if len(body) + 1 < len(rows):
        notes.append(f"metrics.csv has {len(rows) - 1 - len(body)} damaged line(s), which are left out.")
    return {name: column for name, column in columns.items() if np.isfinite(column).any()}


def _results(folder: Path, notes: list[str]) -> dict[str, Result]:
    files = sorted(folder.glob("*.json"), key=lambda path: rank(path.stem))
    results = {}
    for path in files:
        try:
            found = Result.load(path)
        except Exception:  # as above
            notes.append(f"results/{path.stem[:LONGEST]} is damaged and left out; duet evaluate measures it again.")
            continue
        results[found.name] = found
    if not files:
        notes.append("Nothing is measured yet: duet evaluate does that.")
    return results


def _text(path: Path) -> str:
    if path.stat().st_size > LARGEST:
        raise DuetError("too large")
    return path.read_text(encoding="utf-8")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
