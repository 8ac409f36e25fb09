"""Features on disk: one safetensors file whose header holds the layout as JSON. Nothing in it can run code."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .fitted import FittedAction
from .layout import Layout, layout_from_dict

HEADER = "duet.representation"
FORMAT = 1

Features = tuple[Tensor, Layout, dict[str, FittedAction], bool]


def save_features(
    path: str | os.PathLike[str], flat: Tensor, layout: Layout, fitted: Mapping[str, FittedAction], relative: bool
) -> None:
    """Write features (B, D) with their layout and actions, all of it or nothing."""
    names = list(fitted)
    tensors = {"flat": flat}
    for number, name in enumerate(names):
        tensors |= {f"fitted.{number}.{key}": value for key, value in fitted[name].state_dict().items()}
    header = {"format": FORMAT, "layout": layout.to_dict(), "fitted": names, "relative": relative}
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        save_file(plain, partial, {HEADER: json.dumps(header, sort_keys=True)})
        partial.chmod(0o644)  # safetensors makes it private to the user
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load_features(path: str | os.PathLike[str]) -> Features:
    """What `save_features` wrote."""
    shown = os.fspath(path)
    try:
        with safe_open(shown, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(HEADER, "null"))
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
    except FileNotFoundError:
        raise ValueError(f"no representation {shown}: file not found") from None
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot read the representation {shown}: {' '.join(str(error).split())}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{shown} is not a representation of this version of duet")
    try:
        layout, flat = layout_from_dict(header["layout"]), tensors["flat"]
        if flat.ndim != 2 or flat.shape[1] != layout.dim or not flat.is_floating_point():
            raise ValueError(f"features {tuple(flat.shape)} in a layout of {layout.dim}")
        fitted = {
            str(name): FittedAction.from_state_dict(_part(tensors, f"fitted.{number}."), layout.dim)
            for number, name in enumerate(header["fitted"])
        }
        return flat, layout, fitted, bool(header["relative"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{shown} is not a whole representation: {error}") from None


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
