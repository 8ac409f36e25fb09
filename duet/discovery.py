"""A room finds its own files: what is written in one of them registers itself, and no list elsewhere has to name it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_files(package: str, folders: Iterable[str]) -> None:
    """Import every module of a package, in the order of their names; packages inside it are left to their users."""
    for entry in iter_modules(folders):
        if not entry.ispkg:
            import_module(f"{package}.{entry.name}")
