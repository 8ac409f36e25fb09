"""Features on disk: one safetensors file whose header holds the layout as JSON. Nothing in it can run code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..error import DuetError, first_line
from ..file import whole_file
from .action import Action
from .fitted import FittedAction
from .layout import Layout, layout_from_dict
from .spectrum import Spectrum

HEADER = "duet.representation"
FORMAT = 2

Actions: TypeAlias = Mapping[str, Mapping[str, Action]]
"""Actions by the name of their group and by their kind."""
STORED: dict[str, type[FittedAction] | type[Spectrum]] = {FittedAction.name: FittedAction, Spectrum.name: Spectrum}
"""The kinds of actions that have tensors of their own, and so a place in files."""


class RawScale(NamedTuple):
    """What g means: the unit, and the raw values at g = 0 and g = 1."""

    unit: str
    low: float
    high: float


Stored: TypeAlias = "tuple[Tensor, Layout, Actions, bool, dict[str, RawScale]]"


def action_tensors(actions: Actions) -> dict[str, Tensor]:
    """All tensors of all actions: action.GROUP.KIND.NAME -> tensor."""
    return {
        f"action.{name}.{kind}.{key}": value
        for name, own in actions.items()
        for kind, action in own.items()
        if isinstance(action, nn.Module)
        for key, value in action.state_dict().items()
    }


def list_actions(actions: Actions) -> list[list[str]]:
    """Which actions there are, as plain values: pairs of a group's name and a kind."""
    return [[name, kind] for name, own in actions.items() for kind in own]


def read_actions(listed: Any, tensors: Mapping[str, Tensor], features: int) -> dict[str, dict[str, Action]]:
    """The actions that `list_actions` listed, from their tensors; DuetError when they do not fit."""
    found: dict[str, dict[str, Action]] = {}
    for name, kind in listed:
        if kind not in STORED:
            raise DuetError(f"an action of the unknown kind {kind!r}")
        own = part_of(tensors, f"action.{name}.{kind}.")
        found.setdefault(str(name), {})[str(kind)] = STORED[kind].from_state_dict(own, features)
    return found


def part_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def save_features(
    path: str | os.PathLike[str],
    flat: Tensor,
    layout: Layout,
    actions: Actions,
    relative: bool,
    scales: Mapping[str, RawScale],
) -> None:
    """Write features (B, D) with their layout and actions, all of it or nothing."""
    header = {
        "format": FORMAT,
        "layout": layout.to_dict(),
        "actions": list_actions(actions),
        "relative": relative,
        "scales": {name: list(scale) for name, scale in scales.items()},
    }
    tensors = {"flat": flat, **action_tensors(actions)}
    plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    with whole_file(Path(path)) as partial:
        save_file(plain, partial, {HEADER: json.dumps(header, sort_keys=True)})


def load_features(path: str | os.PathLike[str]) -> Stored:
    """What `save_features` wrote."""
    shown = os.fspath(path)
    try:
        with safe_open(shown, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(HEADER, "null"))
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
    except FileNotFoundError:
        raise DuetError(f"no representation {shown}: file not found") from None
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise DuetError(f"cannot read the representation {shown}: {first_line(error)}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DuetError(f"{shown} is not a representation of this version of duet")
    try:
        layout, flat = layout_from_dict(header["layout"]), tensors["flat"]
        if flat.ndim != 2 or flat.shape[1] != layout.dim or not flat.is_floating_point():
            raise DuetError(f"features {tuple(flat.shape)} in a layout of {layout.dim}")
        actions = read_actions(header["actions"], tensors, layout.dim)
        scales = {
            str(name): RawScale(str(u), float(low), float(high)) for name, (u, low, high) in header["scales"].items()
        }
        return flat, layout, actions, bool(header["relative"]), scales
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise DuetError(f"{shown} does not hold a whole representation: {first_line(error)}") from None
