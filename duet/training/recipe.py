"""Plain values of a run: from a shipped preset, a file, the command line, one over the other."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from ..error import DuetError, did_you_mean, first_line
from ..file import does_not_exist, read_settings
from .plain_yaml import parse_yaml

_METHODS_OWN = ("weight", "options")
"""Keys that belong to the method that a file names: another method has its own."""
_BY_GROUP = ("weight", "turns")
"""Keys for which a recipe may have one value for every group."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The plain values of a YAML file."""
    if not path.exists():
        raise DuetError(f"cannot read the configuration: {does_not_exist(path)}")
    try:
        values = parse_yaml(read_settings(path).decode())
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        raise DuetError(f"cannot read the configuration {path}: {error.problem or 'not YAML'}{line}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise DuetError(f"cannot read the configuration {path}: {first_line(error)}") from None
    if not isinstance(values, dict):
        raise DuetError(f"{path} must hold `key: value` lines")
    return values


def presets() -> dict[str, str]:
    """The shipped recipes, each with the line that says what it is for."""
    folder = files(__package__.partition(".")[0]) / "presets"
    found = sorted((entry.name, entry.read_text()) for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): text.splitlines()[0].lstrip("# ") for name, text in found}


def preset(name: str) -> dict[str, Any]:
    """The plain values of a shipped recipe; weight and turns may differ by group."""
    known = presets()
    if name not in known:
        raise DuetError(f"no preset {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}")
    text = (files(__package__.partition(".")[0]) / "presets" / f"{name}.yaml").read_text()
    return dict(yaml.safe_load(text))


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a preset, a file, flags, ...: a later one beats an earlier one.

    A weight belongs to the method that its own layer names (duet if it names none): under another method it is dropped.
    """
    whole = {key: value for layer in layers for key, value in layer.items()}
    method = whole.get("method", "duet")
    merged: dict[str, Any] = {}
    for place, layer in enumerate(layers):
        # What is typed last is meant for the method that is trained.
        ours = layer.get("method", "duet") == method or place == len(layers) - 1
        merged |= {key: value for key, value in layer.items() if ours or key not in _METHODS_OWN}
    for key in _BY_GROUP:
        if isinstance(merged.get(key), Mapping) and "others" in merged[key]:
            merged[key] = _by_group(merged[key], merged.get("group", "rot360"))
    return merged


def _by_group(values: Mapping[str, Any], group: Any) -> Any:
    """lambda, or turns, of a recipe that has one for every group; of several groups the least, which all bear."""
    names = [group] if isinstance(group, str) else group if isinstance(group, list | tuple) else []
    found = [values.get(name, values["others"]) for name in names if isinstance(name, str)] or [values["others"]]
    # A group that is none, and a value that is no number, are refused where their types are known.
    odd = [value for value in found if not isinstance(value, int | float)]
    return odd[0] if odd else min(found)
