"""DUET: 2D structured and approximately equivariant image representations."""

from .groups import GROUPS, register_group

__all__ = ["GROUPS", "register_group"]
