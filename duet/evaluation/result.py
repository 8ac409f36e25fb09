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
from numpy.typing import NDArray

FORMAT = 1
LARGEST = 2**30  # bytes that the arrays of a result may take
Array = NDArray[Any]


@dataclass(frozen=True)
class Result:
    """`scalars` and `arrays` by name; `provenance` says what was measured on what, with plain values only."""

    name: str
    scalars: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            raise ValueError(f"the name of a result has letters, digits, - and _ only; it is {self.name!r}")
        for key, array in self.arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise ValueError(f"the array {key!r} of {self.name} holds objects; give it numbers or text")

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write NAME.npz, then NAME.json, each all or nothing; returns the path of the JSON."""
        path = Path(folder) / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **self.arrays)
        plain = {
            "format": FORMAT,
            "name": self.name,
            # JSON knows no NaN: what could not be measured is null.
            "scalars": {k: float(v) if math.isfinite(v) else None for k, v in self.scalars.items()},
            "arrays": {k: list(np.shape(v)) for k, v in self.arrays.items()},
            "arrays_sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
            "provenance": self.provenance,
        }
        text = json.dumps(plain, indent=2, allow_nan=False) + "\n"
        _write(path.with_suffix(".npz"), buffer.getvalue())
        _write(path, text.encode())
        return path

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Result:
        """The result of a JSON file that `save` wrote, with the npz beside it."""
        path = Path(path).with_suffix(".json")
        try:
            plain = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"cannot read the result {path}: {_line(error)}") from None
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise ValueError(f"{path} is not a result of this version of duet")
        try:
            packed = path.with_suffix(".npz").read_bytes()
            if hashlib.sha256(packed).hexdigest() != plain["arrays_sha256"]:
                raise ValueError("it is damaged, or of another evaluation than the JSON beside it")
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                if sum(member.file_size for member in archive.infolist()) > LARGEST:
                    raise ValueError(f"unpacked it would take more than {LARGEST // 2**20} MiB")
            with np.load(io.BytesIO(packed), allow_pickle=False) as file:
                arrays = {key: file[key] for key in plain["arrays"]}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"cannot read the arrays {path.with_suffix('.npz')}: {_line(error)}") from None
        try:
            scalars = {str(k): math.nan if v is None else float(v) for k, v in plain["scalars"].items()}
            return Result(str(plain["name"]), scalars, arrays, dict(plain["provenance"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} does not hold a whole result: {_line(error)}") from None


def difference(first: Result, second: Result) -> Result:
    """first - second for every number that both have: what one run gains over the other."""
    shared = [key for key in first.scalars if key in second.scalars]
    if not shared:
        raise ValueError(f"{first.name} and {second.name} have no number in common")
    scalars = {key: first.scalars[key] - second.scalars[key] for key in shared}
    return Result(f"{first.name}-difference", scalars, {}, {"first": first.provenance, "second": second.provenance})


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
