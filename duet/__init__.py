"""DUET: 2D structured and approximately equivariant image representations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .application import align
    from .callback import OnlineEquivariance
    from .error import DuetError
    from .evaluation import register_evaluation
    from .groups import GROUPS, register_group
    from .methods import register_method
    from .metrics import EquivarianceSpectrum
    from .model import Encoder, load
    from .objectives import register_objective
    from .paper import evaluate
    from .plugin import import_plugin
    from .representation import Representation
    from .training.experiment import Experiment
    from .training.run import resume, train

_ROOMS = {
    "DuetError": "error",
    "Encoder": "model",
    "EquivarianceSpectrum": "metrics",
    "Experiment": "training.experiment",
    "GROUPS": "groups",
    "OnlineEquivariance": "callback",
    "Representation": "representation",
    "align": "application",
    "evaluate": "paper",  # which knows the costs too
    "import_plugin": "plugin",
    "load": "model",
    "register_evaluation": "evaluation",
    "register_group": "groups",
    "register_method": "methods",
    "register_objective": "objectives",
    "resume": "training.run",
    "train": "training.run",
}

__all__ = [
    "GROUPS",
    "DuetError",
    "Encoder",
    "EquivarianceSpectrum",
    "Experiment",
    "OnlineEquivariance",
    "Representation",
    "__version__",
    "align",
    "evaluate",
    "import_plugin",
    "load",
    "register_evaluation",
    "register_group",
    "register_method",
    "register_objective",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    # Imported when first used, so that `duet --help` answers at once.
    if name in _ROOMS:
        return getattr(import_module(f".{_ROOMS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
