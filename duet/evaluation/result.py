"""What an evaluation found: numbers, arrays and where they come from; on disk as JSON and npz."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..error import DuetError, first_line
from ..file import read_settings, whole_files

FORMAT = 1
LARGEST = 2**30  # bytes that the arrays of a result may take
Array = NDArray[Any]


@dataclass(frozen=True)
class Scores:
    """What a rival reached: `scalars` by name, and the 95 % intervals of some of them."""

    scalars: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """`scalars` and `arrays` (tensors too) by name; `provenance` says in plain values what was measured on what.

    `intervals` hold 95 % of what other draws of the images would have given, for the scalars that matter; `rivals` the
    same scalars of the baselines (pixels, an untrained network, k-means patches), by name.
    """

    name: str
    scalars: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    rivals: dict[str, Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            raise DuetError(f"the name of a result has letters, digits, - and _ only; it is {self.name!r}")
        tensors = {key: value for key, value in self.arrays.items() if isinstance(value, torch.Tensor)}
        plain = {key: value.detach().cpu().numpy() for key, value in tensors.items()}
        object.__setattr__(self, "arrays", {**self.arrays, **plain})
        for key, array in self.arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise DuetError(f"the array {key!r} of {self.name} holds objects; give it numbers or text")

    @property
    def missing(self) -> dict[str, str]:
        """Scalars that could not be had, each with the reason: `missing` of the provenance."""
        told = self.provenance.get("missing")
        return {str(key): str(why) for key, why in told.items()} if isinstance(told, dict) else {}

    def __repr__(self) -> str:
        scalars = ", ".join(f"{key}={value:.4g}" for key, value in list(self.scalars.items())[:4])
        more = f", ... {len(self.scalars)} scalars" if len(self.scalars) > 4 else ""
        return f"Result({self.name!r}, {scalars}{more}, {len(self.arrays)} arrays)"

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write NAME.npz, then NAME.json, each all or nothing; returns the path of the JSON."""
        path = Path(folder) / f"{self.name}.json"
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **self.arrays)
        plain = {
            "format": FORMAT,
            "name": self.name,
            # JSON knows no NaN: what could not be measured is null.
            "scalars": _plain_scalars(self.scalars),
            "intervals": _plain_intervals(self.intervals),
            "rivals": {
                name: {"scalars": _plain_scalars(own.scalars), "intervals": _plain_intervals(own.intervals)}
                for name, own in self.rivals.items()
            },
            "arrays": {k: list(np.shape(v)) for k, v in self.arrays.items()},
            "arrays_sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
            "provenance": self.provenance,
        }
        text = json.dumps(plain, indent=2, allow_nan=False) + "\n"
        with whole_files(path.with_suffix(".npz"), path) as (arrays, scalars):
            arrays.write_bytes(buffer.getvalue())
            scalars.write_bytes(text.encode())
        return path

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Result:
        """The result of a JSON file that `save` wrote, with the npz beside it."""
        path = Path(path).with_suffix(".json")
        try:
            plain = json.loads(read_settings(path))
        except (OSError, ValueError, RecursionError) as error:
            raise DuetError(f"cannot read the result {path}: {first_line(error)}") from None
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise DuetError(f"{path} is not a result of this version of duet")
        try:
            packed = path.with_suffix(".npz").read_bytes()
            if hashlib.sha256(packed).hexdigest() != plain["arrays_sha256"]:
                raise DuetError("it is damaged, or of another evaluation than the JSON beside it")
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                if sum(member.file_size for member in archive.infolist()) > LARGEST:
                    raise DuetError(f"unpacked it would take more than {LARGEST // 2**20} MiB")
            with np.load(io.BytesIO(packed), allow_pickle=False) as file:
                arrays = {key: file[key] for key in plain["arrays"]}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DuetError(f"cannot read the arrays {path.with_suffix('.npz')}: {first_line(error)}") from None
        try:
            own = _scores(plain)
            rivals = {str(name): _scores(scores) for name, scores in plain.get("rivals", {}).items()}
            return Result(str(plain["name"]), own.scalars, arrays, dict(plain["provenance"]), own.intervals, rivals)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DuetError(f"{path} does not hold a whole result: {first_line(error)}") from None


def _plain_scalars(scalars: dict[str, float]) -> dict[str, float | None]:
    return {key: float(value) if math.isfinite(value) else None for key, value in scalars.items()}


def _plain_intervals(intervals: dict[str, tuple[float, float]]) -> dict[str, list[float]]:
    return {key: [float(end) for end in ends] for key, ends in intervals.items() if all(map(math.isfinite, ends))}


def _scores(plain: dict[str, Any]) -> Scores:
    scalars = {str(key): math.nan if value is None else float(value) for key, value in plain["scalars"].items()}
    intervals = {str(key): (float(low), float(high)) for key, (low, high) in plain.get("intervals", {}).items()}
    return Scores(scalars, intervals)


def difference(first: Result, second: Result) -> Result:
    """first - second for every number that both have: what one run gains over the other."""
    shared = [key for key in first.scalars if key in second.scalars]
    if not shared:
        raise DuetError(f"{first.name} and {second.name} have no number in common")
    scalars = {key: first.scalars[key] - second.scalars[key] for key in shared}
    return Result(f"{first.name}-difference", scalars, {}, {"first": first.provenance, "second": second.provenance})
