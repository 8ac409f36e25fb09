"""Contrasts by name: what may stand between the content of two views."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from torch import Tensor

from ..error import DuetError, did_you_mean

Gather: TypeAlias = Callable[[Tensor], Tensor]
Contrast: TypeAlias = Callable[..., Tensor]
"""(first (N, d), second (N, d), gather=None) -> (): the mean over anchors; options of its own have defaults."""

OBJECTIVES: dict[str, Contrast] = {}
"""Every registered contrast, by name."""


def register_objective(contrast: Contrast, name: str | None = None) -> Contrast:
    """Make a contrast known, by its function's name unless you give another; returns it."""
    known_as: str = name or str(getattr(contrast, "__name__", ""))
    if not callable(contrast) or not known_as.replace("_", "").isalnum():
        raise DuetError("an objective is a function with a name of letters, digits and _; give name= if it has none")
    try:
        inspect.signature(contrast).bind(None, None, gather=None)
    except (TypeError, ValueError):
        raise DuetError(f"the objective {known_as} is called as {known_as}(first, second, gather=...)") from None
    if known_as in OBJECTIVES:
        raise DuetError(f"an objective named {known_as!r} is registered already; give yours another name")
    OBJECTIVES[known_as] = contrast
    return contrast


def find_objective(name: str, **options: Any) -> Contrast:
    """The contrast of that name, with those of the options that it takes."""
    if name not in OBJECTIVES:
        raise DuetError(f"no objective {name!r}{did_you_mean(name, OBJECTIVES)}; there are {', '.join(OBJECTIVES)}")
    accepted = inspect.signature(OBJECTIVES[name]).parameters
    return partial(OBJECTIVES[name], **{key: value for key, value in options.items() if key in accepted})
