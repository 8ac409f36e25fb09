"""A run's checkpoint: what it holds, and what is checked before a run resumes from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..error import DuetError, shorten
from ..model.checkpoint import as_tensor_like, read_checkpoint, write_checkpoint

FORMAT = 2
"""1 was Lightning's own, with its loops beside the weights; it is still read."""
OF_MACHINE = ("fused", "foreach", "lr")
"""Optimiser settings that may differ: how it is computed, and the rate, which the loop sets."""
SCALER = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}
"""What the gradient scaler of float16 keeps."""


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Sequence[int],
    batches: int,
    scaler: Mapping[str, Any],
) -> None:
    """Write the state after so many batches, atomically; the same state gives the same bytes."""
    state: dict[str, Any] = {"format": FORMAT, "batches": batches, "images": list(images)}
    state |= {"weights": module.state_dict(), "optimizer": optimizer.state_dict()}
    write_checkpoint(state | ({"scaler": dict(scaler)} if scaler else {}), path)


def load_checkpoint(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, images: Sequence[int], most: int
) -> tuple[int, dict[str, Any]]:
    """Restore module and optimiser; returns how many batches of `most` are done, and the gradient scaler's state.

    Nothing is changed where the file is not a checkpoint of this run.
    """
    try:
        state = _as_written_now(read_checkpoint(path))
    except DuetError as error:
        raise DuetError(f"cannot go on from {path}: {error}") from None
    _check_images(state.get("images", list(images)), images)
    try:
        batches = _count(_entry(state, "batches"), "batches", most)
        check_weights(state, module)
        check_optimizer(state, optimizer, most)
        scaler = _check_scaler(state.get("scaler", {}))
    except DuetError as error:
        raise DuetError(f"cannot go on from {path}: {error}") from None
    module.load_state_dict(state["weights"])
    # The settings are the same by now, but for those of a machine, where this one's hold.
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state["optimizer"]["state"]})
    for parameter, memory in optimizer.state.items():
        for key, value in memory.items():
            # In the memory order of its parameter, so that it rounds as it would have without the interruption.
            memory[key] = as_tensor_like(value, parameter) if isinstance(value, Tensor) else value
    return batches, scaler


def _as_written_now(state: Any) -> dict[str, Any]:
    """The entries of a checkpoint by name, also of one in Lightning's form."""
    if not isinstance(state, dict):
        raise DuetError("it holds no entries by name")
    if "pytorch-lightning_version" in state:
        found = _entry(state, "optimizer_states")
        if not isinstance(found, list) or len(found) != 1:
            raise DuetError("its optimizer_states is not a list of one")
        return {**state, "format": FORMAT, "weights": _entry(state, "state_dict"), "optimizer": found[0]}
    if type(state.get("format")) is not int or state["format"] != FORMAT:
        raise DuetError(f"its format is not {FORMAT}")
    return state


def _check_images(before: Any, now: Sequence[int]) -> None:
    """Refuse to go on with other images than the run began with."""
    if before == list(now):
        return
    pair = isinstance(before, list) and len(before) == 2 and all(isinstance(count, int) for count in before)
    began = f"{before[0]} images of {before[1]} classes" if pair else "other images"
    raise DuetError(
        f"this run began with {began}, and now there are {now[0]} of {now[1]}; restore them, or begin a new run"
    )


def _check_scaler(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict) or set(state) not in (set(), SCALER):
        raise DuetError("its scaler is not that of a run")
    if not all(_finite(value, at_least=0) for value in state.values()):
        raise DuetError("its scaler holds values that are no numbers")
    return state


def check_weights(state: Mapping[str, Any], module: nn.Module) -> None:
    """The weights of this model, and numbers."""
    found, own = _named(state, "weights"), module.state_dict()
    weights = {name for name, _ in module.named_parameters()}
    if set(found) != set(own) or any(_shape(found[name]) != value.shape for name, value in own.items()):
        raise DuetError("it is of another model; was config.yaml changed since?")
    for name, value in own.items():
        if found[name].is_floating_point() != value.is_floating_point():
            raise DuetError(f"the values of {name} are of another kind")
        counts = name in weights or name.rpartition(".")[2].startswith("running_")
        if counts and not bool(torch.isfinite(found[name]).all()):
            raise DuetError(f"{name} holds values that are no numbers (NaN or infinity)")


def check_optimizer(state: Mapping[str, Any], optimizer: torch.optim.Optimizer, batches: int) -> None:
    """The optimiser's settings are those of the run, and what it remembers fits the weights."""
    found, own = _named(state, "optimizer"), optimizer.state_dict()
    groups, kept = _entry(found, "param_groups"), _named(found, "state")
    if not isinstance(groups, list) or len(groups) != len(own["param_groups"]):
        raise DuetError("its param_groups are not those of this run")
    for group, ours in zip(groups, own["param_groups"], strict=True):
        if not isinstance(group, dict) or not _finite(group.get("lr"), at_least=0):
            raise DuetError("its param_groups have no learning rate")
        for key in set(ours) - set(OF_MACHINE):
            if key not in group or _plain(group[key]) != _plain(ours[key]):
                raise DuetError(f"its param_groups have another {key}")
        if any(not isinstance(group.get(key), bool | None) for key in OF_MACHINE[:2]):
            raise DuetError("its param_groups have an odd fused or foreach")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, memory in kept.items():
        place = _count(number, "an optimizer's parameter", len(parameters) - 1)
        shape = parameters[place].shape
        adam = {"step": torch.Size(), "exp_avg": shape, "exp_avg_sq": shape}
        wanted = {"momentum_buffer": shape} if isinstance(optimizer, torch.optim.SGD) else adam
        if not isinstance(memory, dict) or {key: _shape(value) for key, value in memory.items()} != wanted:
            raise DuetError(f"what its optimizer remembers of parameter {place} does not fit")
        finite = all(bool(torch.isfinite(value).all()) for value in memory.values())
        if not finite or ("exp_avg_sq" in memory and memory["exp_avg_sq"].min() < 0):
            raise DuetError(f"what its optimizer remembers of parameter {place} is no number")
        if "step" in memory:
            _count(float(memory["step"]), "an optimizer's step", batches)


def _entry(state: Mapping[str, Any], name: str) -> Any:
    if name not in state:
        raise DuetError(f"it has no {name}")
    return state[name]


def _named(state: Mapping[str, Any], name: str) -> dict[Any, Any]:
    found = _entry(state, name)
    if not isinstance(found, dict):
        raise DuetError(f"its {name} holds no entries by name")
    return found


def _count(value: Any, name: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or value != int(value):
        raise DuetError(f"its {name} is {shorten(_told(value), 40)}, and can be from 0 to {most}")
    return int(value)


def _told(value: Any) -> str:
    if isinstance(value, int | float | str | None) and (not isinstance(value, int) or value.bit_length() < 10_000):
        return repr(value)
    return f"a {type(value).__name__}"


def _finite(value: Any, at_least: float) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and at_least <= value < math.inf


def _shape(value: Any) -> torch.Size | None:
    return value.shape if isinstance(value, Tensor) else None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
