"""Modules of the user's own. What a user types is imported; a file never makes us import anything."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from .error import DuetError, did_you_mean, first_line

_TRUSTED: set[str] = set()


def import_plugin(name: str) -> ModuleType:
    """Import a module that the user named, from the working folder or as installed, and trust it from now on."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except DuetError:
        raise
    except (Exception, SystemExit) as error:  # a user's module can fail in any way while it is imported
        raise DuetError(f"cannot import {name!r}: {first_line(error)}") from error
    _TRUSTED.add(name)
    return module


def import_name(spec: str) -> Any:
    """What `mypkg.module:Name` stands for, which the user typed."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise DuetError(f"{spec!r} should be module:Name, such as mypkg.models:build")
    module = import_plugin(module_name)
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise DuetError(f"{module_name} has no {attribute!r}{did_you_mean(attribute, public)}")
    return getattr(module, attribute)


def is_spec(name: str) -> bool:
    """Whether a name is of the form module:Name."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def home_of(thing: Any) -> str | None:
    """The user's module in which a class or an object's class was written; None for what is our own."""
    module = (thing if isinstance(thing, type) else type(thing)).__module__
    return None if module.partition(".")[0] in (__package__, "builtins") else module


def require_plugins(names: Iterable[str], source: str) -> None:
    """Refuse what a file asks for until the user has imported it."""
    # A program that has imported the module itself has decided, and so has one that defines things in its own script.
    missing = [name for name in dict.fromkeys(names) if name not in _TRUSTED and name not in sys.modules]
    if missing:
        flags = " ".join(f"--plugin {name}" for name in missing)
        raise DuetError(f"{source} needs {', '.join(missing)}, a module of its author's: read it, then give {flags}")


def trusted(module: str) -> bool:
    """Whether the user has named this module."""
    return module in _TRUSTED
