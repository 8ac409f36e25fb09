"""Plain values from a file or a command line as the types of a dataclass's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..error import DuetError, shown

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", dict: "`key: value` pairs"}


def typed(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Every value as the type of its field, or a sentence that says what it should be."""
    hints = get_type_hints(kind)
    return {key: _typed(key, value, hints[key]) for key, value in values.items()}


def choices(kind: type) -> dict[str, tuple[Any, ...]]:
    """The values that a field may have, for those with a list of them; None among them when it may be left out."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        parts = [hint] if get_origin(hint) is Literal else [p for p in get_args(hint) if get_origin(p) is Literal]
        if parts:
            optional = (None,) if type(None) in get_args(hint) else ()
            found[name] = (*get_args(parts[0]), *optional)
    return found


def _typed(key: str, value: Any, hint: Any) -> Any:
    kinds = get_args(hint) if get_origin(hint) not in (None, tuple, dict, Literal) else (hint,)
    if value is None and type(None) in kinds:
        return None
    kind = next(k for k in kinds if k is not type(None))
    if kind is Any:
        return value
    if get_origin(kind) is Literal:
        # A flag's "3" is the choice 3; what is no choice at all is refused by whoever knows them.
        return next((choice for choice in get_args(kind) if str(choice) == str(value)), value)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        values = list(value) if isinstance(value, list | tuple) else [value]
        if inner[-1] is not Ellipsis and len(values) != len(inner):
            raise DuetError(f"{key} takes {len(inner)} values; it is {shown(value)}")
        return tuple(_typed(key, v, inner[0]) for v in values)
    kind = get_origin(kind) or kind
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    try:
        if kind is str and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if kind is float and not isinstance(value, bool):
            return float(value)
        if kind is int and not isinstance(value, bool) and float(value) == int(float(value)):
            return int(float(value))
        if kind is bool and str(value).lower() in ("true", "false", "yes", "no"):
            return str(value).lower() in ("true", "yes")
    except (TypeError, ValueError, OverflowError):  # the last of int(inf)
        pass
    raise DuetError(f"{key} must be {_NAMES.get(kind, kind.__name__)}; it is {shown(value)}")
