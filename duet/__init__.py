"""DUET: 2D structured and approximately equivariant image representations."""

from .artifact import Encoder, load
from .groups import GROUPS, register_group
from .representation import Representation

__all__ = ["GROUPS", "Encoder", "Representation", "load", "register_group"]
