"""Training: the configuration of a run, one loop for every method, runs that can be stopped and resumed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .experiment import Experiment
    from .loop import Diverged, Stopped, learning_rate
    from .module import Pretraining
    from .run import resume, train
    from .step import loss_of_batch, parameter_groups, step_seed

_FILES = {
    "Diverged": "loop",
    "Experiment": "experiment",
    "Pretraining": "module",
    "Stopped": "loop",
    "learning_rate": "loop",
    "loss_of_batch": "step",
    "parameter_groups": "step",
    "resume": "run",
    "step_seed": "step",
    "train": "run",
}

__all__ = [
    "Diverged",
    "Experiment",
    "Pretraining",
    "Stopped",
    "learning_rate",
    "loss_of_batch",
    "parameter_groups",
    "resume",
    "step_seed",
    "train",
]


def __getattr__(name: str) -> Any:
    # A configuration is read without Lightning Fabric, which takes seconds to import.
    if name in _FILES:
        return getattr(import_module(f".{_FILES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
