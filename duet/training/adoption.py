"""Things of the user's own that were typed as module:Name: imported, registered, and from then on known by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..error import DuetError
from ..groups import GROUPS, Group, register_group
from ..methods import METHODS, Method, register_method
from ..objectives import OBJECTIVES, register_objective
from ..plugin import import_name, import_plugin, is_spec


def adopt(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with registered names in the place of module:Name, and the modules they came from among `plugins`.

    For what a user typed, never for what a file says.
    """
    adopted = dict(values)
    plugins = list(_listed(values.get("plugins")))
    for name in plugins:
        import_plugin(str(name))
    if "group" in values:
        adopted["group"] = [adopt_group(str(name), plugins) for name in _listed(values["group"])]
    if isinstance(values.get("method"), str):
        adopted["method"] = adopt_method(values["method"], plugins)
    if isinstance(values.get("contrast"), str):
        adopted["contrast"] = adopt_objective(values["contrast"], plugins)
    for network in (values.get("encoder"), values.get("trunk")):
        if isinstance(network, str) and is_spec(network) and not network.startswith("timm:"):
            import_plugin(network.partition(":")[0])
            plugins.append(network.partition(":")[0])
    return {**adopted, "plugins": list(dict.fromkeys(plugins))} if plugins else adopted


def adopt_group(name: str, plugins: list[str]) -> str:
    """The name of a registered group, of its own name or of module:Name."""
    if not is_spec(name):
        return name
    found = import_name(name)
    group = found() if isinstance(found, type) and issubclass(found, Group) else found
    if not isinstance(group, Group):
        raise DuetError(f"{name} is not a Group")
    known = GROUPS.get(getattr(group, "name", ""))
    if known is None or type(known) is not type(group):
        register_group(group)
    plugins.append(name.partition(":")[0])
    return group.name


def adopt_method(name: str, plugins: list[str]) -> str:
    """The name of a registered method, of its own name or of module:Name."""
    if not is_spec(name):
        return name
    found = import_name(name)
    if not isinstance(found, type) or not issubclass(found, Method):
        raise DuetError(f"{name} is not a class that inherits from Method")
    if METHODS.get(getattr(found, "name", "")) is not found:
        register_method(found)
    plugins.append(name.partition(":")[0])
    return found.name


def adopt_objective(name: str, plugins: list[str]) -> str:
    """The name of a registered objective, of its own name or of module:Name."""
    if not is_spec(name):
        return name
    found = import_name(name)
    known_as = next((known for known, contrast in OBJECTIVES.items() if contrast is found), None)
    if known_as is None:
        register_objective(found)
        known_as = found.__name__
    plugins.append(name.partition(":")[0])
    return known_as


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
