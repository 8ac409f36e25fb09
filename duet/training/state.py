"""What a checkpoint must hold before a run goes on from it: nothing missing, nothing that cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..error import DuetError, shorten

OF_MACHINE = ("fused", "foreach", "lr")
"""What of an optimiser's settings may differ: how it is computed, and the rate, which the schedule gives."""
SCHEDULE = ("base_lrs", "last_epoch", "_step_count", "lr_lambdas")
"""What a schedule cannot do without."""


def check_outside(state: Any) -> dict[str, Any]:
    """A checkpoint that can be looked at: entries by name, of a version of Lightning that wrote such."""
    if not isinstance(state, dict):
        raise DuetError("it holds no entries by name")
    version = str(_entry(state, "pytorch-lightning_version")).partition(".")[0]
    if not version.isdecimal() or not 2 <= int(version[:9]) < 100:
        raise DuetError("its pytorch-lightning_version is none that wrote such")
    return state


def check_weights(state: Mapping[str, Any], module: nn.Module) -> None:
    """The weights of this model, and numbers."""
    found, own = _named(state, "state_dict"), module.state_dict()
    weights = {name for name, _ in module.named_parameters()}
    if set(found) != set(own) or any(_shape(found[name]) != value.shape for name, value in own.items()):
        raise DuetError("it is of another model; was config.yaml changed since?")
    for name, value in own.items():
        if found[name].is_floating_point() != value.is_floating_point():
            raise DuetError(f"the values of {name} are of another kind")
        counts = name in weights or name.rpartition(".")[2].startswith("running_")
        if counts and not bool(torch.isfinite(found[name]).all()):
            raise DuetError(f"{name} holds values that are no numbers (NaN or infinity)")


def check_counts(state: Mapping[str, Any], loop: Mapping[str, Any], batches: int) -> None:
    """How far the run is: counts that agree, none beyond the batches of the run. `loop`: one that has not begun."""
    done = _count(_entry(state, "batches"), "batches", batches)
    for name in ("epoch", "global_step"):
        _count(_entry(state, name), name, done)
    found = _named(_named(state, "loops"), "fit_loop")
    # Of the data the loop keeps one empty entry: a batch is a function of its number.
    if _named(found, "state_dict").get("combined_loader", [{}]) != [{}]:
        raise DuetError("its combined_loader is not that of a run")
    _like(found, loop, "fit_loop", batches + 1)
    if found["epoch_loop.batch_progress"]["current"]["ready"] != done:
        raise DuetError("its batches and its loops disagree")
    if not isinstance(state.get("callbacks", {}), dict):
        raise DuetError("its callbacks are not entries by name")


def check_optimizer(state: Mapping[str, Any], optimizer: torch.optim.Optimizer, batches: int) -> None:
    """The optimiser's settings are those of the run, and what it remembers fits the weights."""
    found, own = _only(state, "optimizer_states"), optimizer.state_dict()
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


def check_schedule(state: Mapping[str, Any], schedule: torch.optim.lr_scheduler.LambdaLR, batches: int) -> None:
    """The schedule is that of the run."""
    found, own = _only(state, "lr_schedulers"), schedule.state_dict()
    for key in (*SCHEDULE, *found):
        if key not in own:
            raise DuetError(f"its schedule has an odd {shorten(str(key), 40)!r}")
        value = _entry(found, key)
        if key in ("last_epoch", "_step_count"):
            _count(value, key, batches + 1)
        elif key == "_last_lr":
            if not isinstance(value, list) or len(value) != len(own[key]) or not all(_finite(v, 0) for v in value):
                raise DuetError("its schedule has an odd '_last_lr'")
        elif isinstance(own[key], bool):
            if not isinstance(value, bool):
                raise DuetError(f"its schedule has an odd {key!r}")
        elif _plain(value) != _plain(own[key]):
            raise DuetError(f"its schedule has another {key}")


def _like(found: Any, wanted: Any, name: str, most: int) -> None:
    """Counts where there are counts, entries where there are entries."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, dict):
            raise DuetError(f"its {name} holds no entries by name")
        odd = [key for key in found if key not in wanted and not name.endswith("state_dict")]
        if odd:
            raise DuetError(f"its {name} has an odd {shorten(str(odd[0]), 40)!r}")
        for key, value in wanted.items():
            _like(_entry(found, key), value, str(key), most)
    elif isinstance(wanted, bool):
        if not isinstance(found, bool):
            raise DuetError(f"its {name} is neither true nor false")
    elif isinstance(wanted, int):
        _count(found, name, most)


def _entry(state: Mapping[str, Any], name: str) -> Any:
    if name not in state:
        raise DuetError(f"it has no {name}")
    return state[name]


def _named(state: Mapping[str, Any], name: str) -> dict[Any, Any]:
    found = _entry(state, name)
    if not isinstance(found, dict):
        raise DuetError(f"its {name} holds no entries by name")
    return found


def _only(state: Mapping[str, Any], name: str) -> dict[Any, Any]:
    """The one entry of a list."""
    found = _entry(state, name)
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        raise DuetError(f"its {name} is not a list of one")
    return found[0]


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
