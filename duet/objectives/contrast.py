"""Contrasts by name: what may stand between the content of two views."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..error import DuetError, did_you_mean

Gather: TypeAlias = Callable[[Tensor], Tensor]
Contrast: TypeAlias = Callable[..., Tensor]
"""(first (N, d), second (N, d), gather=None) -> (): the mean over anchors; options of its own have defaults.

With parameters (first, second, *others, gather=None) it takes any number of views; else it is given every pair."""

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


def contrast_views(parts: Sequence[Tensor], contrast: Contrast, gather: Gather | None = None) -> Tensor:
    """The contrast of two or more views of the same images, as the mean over unordered pairs: V x (N, d) -> ().

    A contrast with parameters (first, second, *others) defines its own value for more than two views, and takes all of
    them in one call. With two views the value is contrast(first, second).
    """
    if len(parts) < 2:
        raise DuetError(f"a contrast needs at least 2 views of an image, not {len(parts)}")
    if _takes_all(contrast):
        return contrast(*parts, gather=gather)
    pairs = [contrast(first, second, gather=gather) for first, second in combinations(parts, 2)]
    return pairs[0] if len(pairs) == 1 else torch.stack(pairs).mean()


def _takes_all(contrast: Contrast) -> bool:
    """Whether its third parameter is *others; a wrapper's (*args, **kwargs) does not count."""
    third = list(inspect.signature(contrast).parameters.values())[2:3]
    return any(parameter.kind is parameter.VAR_POSITIONAL for parameter in third)
