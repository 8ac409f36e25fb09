"""Training: the configuration of a run, one LightningModule for every method, a run that can be stopped."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .experiment import Experiment
    from .keeper import Diverged, Stopped
    from .module import Pretraining, learning_rate
    from .run import resume, train
    from .step import loss_of_batch, parameter_groups, step_seed

_FILES = {
    "Diverged": "keeper",
    "Experiment": "experiment",
    "Pretraining": "module",
    "Stopped": "keeper",
    "learning_rate": "module",
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
    # A configuration is read without Lightning, which takes seconds to import.
    if name in _FILES:
        return getattr(import_module(f".{_FILES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
