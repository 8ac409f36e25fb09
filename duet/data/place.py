"""Where a run's images lie: noted in its own folder beside what was typed, and found again from any working folder."""

from __future__ import annotations

import glob
import json
import os
from contextlib import suppress
from pathlib import Path

from ..error import DuetError
from ..file import does_not_exist, from_home, read_settings, write_json
from .named import is_name

FILE = "data.json"
"""In a run's folder, and nowhere else: models, records and exports do not tell where on a disk images lay."""


def note_place(run: Path, typed: str, place: str) -> None:
    """Write where the images of a run are, if a path named them: `typed` as in config.yaml, `place` as opened."""
    if not is_name(place):
        write_json(run / FILE, {"typed": typed, "absolute": _absolute(place)})


def find_place(run: str | os.PathLike[str] | None, typed: str) -> str:
    """Where the images of a run or of its model are: where they were, unless they are only where they were typed."""
    for folder in () if run is None else _folders(from_home(run)):
        with suppress(OSError, ValueError, RecursionError):  # there is no note, or it is damaged
            noted = json.loads(read_settings(folder / FILE))
            if isinstance(noted, dict) and noted.get("typed") == typed:
                place = noted.get("absolute")
                if isinstance(place, str) and os.path.isabs(place) and (_is_there(place) or not _is_there(typed)):
                    return place
    return typed


def check_place(source: str) -> None:
    """Refuse a model's own images where they are no longer to be found."""
    if not is_name(source) and not _is_there(source):
        raise DuetError(f"{does_not_exist(source)}, where this model's images were; name them with --data")


def is_same_place(first: str, second: str) -> bool:
    """Whether two sources are the same, as far as their names and paths tell."""
    if first == second:
        return True
    return not is_name(first) and not is_name(second) and _absolute(first) == _absolute(second)


def _is_there(source: str) -> bool:
    """Whether a path, or any path of a pattern, exists."""
    path = _absolute(source)
    return os.path.exists(path) or bool(glob.glob(path))


def _absolute(source: str) -> str:
    return os.path.abspath(from_home(source))


def _folders(run: Path) -> list[Path]:
    """The run's folder of a run, or of the model inside it."""
    return [run, run.resolve().parent] if run.name == "model" else [run]
