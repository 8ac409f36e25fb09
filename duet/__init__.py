"""DUET: 2D structured and approximately equivariant image representations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .artifact import Encoder, load
    from .groups import GROUPS, register_group
    from .representation import Representation

__all__ = ["GROUPS", "Encoder", "Representation", "load", "register_group"]

_ROOMS = {
    "GROUPS": "groups",
    "register_group": "groups",
    "Encoder": "artifact",
    "load": "artifact",
    "Representation": "representation",
}


def __getattr__(name: str) -> Any:
    # Imported when first used, so that `duet --help` answers at once.
    if name in _ROOMS:
        return getattr(import_module(f".{_ROOMS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
