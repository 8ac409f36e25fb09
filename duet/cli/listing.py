"""duet list"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ..error import DuetError
from .command import Command


class List(Command):
    """What there is, each thing in its own words."""

    name = "list"
    summary = "what there is: groups, models, data, presets, methods, evaluations, encoders, trunks, objectives, ..."
    description = """List what can be named on the command line; with --plugin also what your module registers.

  duet list groups
  duet list evaluations --plugin mypkg.module"""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Which kind of thing."""
        kinds = ", ".join(KINDS)
        parser.add_argument("kind", choices=tuple(KINDS), metavar="KIND", help=f"what to list: {kinds}")

    def run(self, args: argparse.Namespace) -> int:
        """Print a line a thing."""
        rows = KINDS[args.kind]()
        width = max((len(name) for name in rows), default=0)
        for name, meaning in rows.items():
            print(f"{name:<{width}}  {meaning}".rstrip())
        return 0


def _groups() -> dict[str, str]:
    from ..groups import GROUPS

    rows = {}
    for name, group in GROUPS.items():
        values = [group.write(float(group.parameter(g)), 0) for g in group.elements or (0.0, 1.0)]
        kind = ", ".join(values) if group.elements else f"{' to '.join(values)}, {group.domain.name}"
        rows[name] = f"{group.title or name}: {kind}"
    return rows


def _models() -> dict[str, str]:
    from ..model import load
    from ..model.hub import shipped_models

    rows = {}
    for name in shipped_models():
        try:
            rows[name] = repr(load(name, "cpu"))
        except DuetError as error:  # its trunk is not installed
            rows[name] = str(error)
    return rows


def _data() -> dict[str, str]:
    from ..data import EMBEDDED, known_names
    from ..data.named import HUB

    rows = {}
    for name in known_names():
        hub = f"on the Hub as {HUB[name].id}" if name in HUB else ""
        rows[name] = "comes with the package" if name == EMBEDDED else hub or "under $DUET_DATA"
    return rows


def _presets() -> dict[str, str]:
    from ..training.recipe import presets

    return presets()


def _methods() -> dict[str, str]:
    from dataclasses import fields

    from ..methods import METHODS

    rows = {}
    for name, method in METHODS.items():
        options = ", ".join(f"{entry.name}={entry.default}" for entry in fields(method.Options))
        rows[name] = f"{method.title}{f' ({options})' if options else ''}"
    return rows


def _evaluations() -> dict[str, str]:
    from .. import paper  # noqa: F401 - its evaluations register themselves
    from ..evaluation import EVALUATIONS

    return {
        name: f"{evaluation.question or evaluation.title}{' (only when named)' if evaluation.on_request else ''}"
        for name, evaluation in EVALUATIONS.items()
    }


def _encoders() -> dict[str, str]:
    from ..networks import BACKBONES

    return {**dict.fromkeys(BACKBONES, ""), "timm:NAME": "a model of timm's", "module:build": "a function of yours"}


def _trunks() -> dict[str, str]:
    from ..networks.trunk import TRUNKS

    return TRUNKS


def _objectives() -> dict[str, str]:
    from ..objectives import OBJECTIVES

    return {name: (contrast.__doc__ or "").strip().split("\n")[0] for name, contrast in OBJECTIVES.items()}


def _reproductions() -> dict[str, str]:
    from ..paper.reproduction import known_reproductions

    return {name: entry.summary for name, entry in known_reproductions().items()}


KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "groups": _groups,
    "models": _models,
    "data": _data,
    "presets": _presets,
    "methods": _methods,
    "evaluations": _evaluations,
    "encoders": _encoders,
    "trunks": _trunks,
    "objectives": _objectives,
    "reproductions": _reproductions,
}
