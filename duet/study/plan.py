"""What a study computes: a base and lists of values become runs, each with a name and a hash of its content."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from ..error import DuetError, did_you_mean, shown
from ..evaluation.suite import find_evaluations
from ..training.experiment import Experiment, check_file, from_dict
from ..training.recipe import merge, preset, read_yaml
from .renamed import check_effort, rename_keys

KEYS = {
    "base": "what all runs share: keys of a run's config.yaml, and preset",
    "vary": "lists of values; every combination is a run",
    "change": "rules `when` and `set`: further values for some combinations",
    "skip": "combinations that are left out",
    "evaluate": "the evaluations of every run",
    "effort": "how much the evaluations measure: quick, standard or paper",
    "transfer": "other sets of images on which the features are tried",
    "baselines": "whether pixels, an untrained network and k-means patches are measured beside every run",
}
WHERE = ("devices", "nodes", "strategy", "storage", "compile", "plugins")
"""Keys that say where a run is computed, not what."""
SAID_ALONE = ("method", "group", "data")
"""Keys whose values say by themselves what they are; of others a name has the key too."""
MOST = 100_000
"""Combinations that a study may have."""

Labels = dict[str, str]
Choices = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One experiment of a study, the names of the values that make it, and how it is evaluated."""

    labels: Labels
    experiment: Experiment
    evaluate: tuple[str, ...] = ("classification",)
    effort: str = "standard"
    transfer: tuple[str, ...] = ()
    baselines: bool = False

    @property
    def name(self) -> str:
        """The values that it has of those that vary, its seed last: duet-rot360-seed0."""
        ordered = sorted(self.labels.items(), key=lambda item: item[0] == "seed")
        parts = [text if key in SAID_ALONE else f"{key}{text}" for key, text in ordered]
        return "-".join(_plain(part) for part in parts) or self.experiment.method

    @cached_property
    def hash(self) -> str:
        """Twelve digits of what decides the weights. A key that is new in duet changes none of them."""
        return hashlib.sha256(json.dumps(self.changed, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def changed(self) -> dict[str, Any]:
        """The settings that decide the weights and are not at their default."""
        plain, own = Experiment().to_dict(), self.experiment.to_dict()
        return {key: value for key, value in own.items() if key not in WHERE and value != plain[key]}

    @property
    def key(self) -> str:
        """The name of its folder and of its file."""
        return f"{self.name}-{self.hash}"


@dataclass(frozen=True)
class Study:
    """Runs, in the order in which they are computed."""

    name: str
    runs: tuple[Run, ...]

    def only(self, words: Sequence[str]) -> Study:
        """The runs whose name holds one of the words between its dashes; several words in one: rot4-seed0."""
        if not words:
            return self
        kept = tuple(run for run in self.runs if any(f"-{word}-" in f"-{run.name}-" for word in words))
        if not kept:
            names = [run.name for run in self.runs]
            raise DuetError(f"no run has {' or '.join(words)} in its name; there are {', '.join(names[:6])}, ...")
        return Study(self.name, kept)


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study of a YAML file. What it names is checked now, and never imported for it."""
    return expand(read_yaml(Path(path)), Path(path).stem, str(path))


def expand(values: Mapping[str, Any], name: str = "study", source: str = "the study") -> Study:
    """The study of plain values: base, vary, change, skip, evaluate, effort, transfer, baselines."""
    values = rename_keys(values, source)
    for key in values:
        if key not in KEYS:
            raise DuetError(f"{source} has an unknown key {shown(key)}{did_you_mean(str(key), KEYS)}")
    base = _mapping(values, "base", source)
    shared = {key: value for key, value in base.items() if key != "preset"}
    recipe = preset(str(base["preset"])) if "preset" in base else {}
    vary = {str(key): _choices(str(key), items, source) for key, items in _mapping(values, "vary", source).items()}
    rules = [_rule(rule, vary, source) for rule in _listed(values.get("change"))]
    skipped = [_condition(rule, vary, "skip", source) for rule in _listed(values.get("skip"))]
    evaluate = tuple(find_evaluations([str(word) for word in _listed(values.get("evaluate", "classification"))]))
    transfer = tuple(str(name) for name in _listed(values.get("transfer")))
    if transfer and "transfer" not in evaluate:
        evaluate = (*evaluate, "transfer")
    effort = check_effort(values.get("effort", "standard"), source)
    baselines = values.get("baselines", False)
    if not isinstance(baselines, bool):
        raise DuetError(f"{source}: baselines is true or false, not {shown(baselines)}")
    runs: dict[str, Run] = {}
    for labels, changes in _combinations(vary, source):
        if any(_holds(when, labels) for when in skipped):
            continue
        for when, then in rules:
            changes = {**changes, **then} if _holds(when, labels) else changes
        where = f"{source}, {' '.join(labels.values())}" if labels else source
        for layer in (shared, changes):
            check_file(layer, where)
        run = Run(labels, from_dict(merge(recipe, shared, changes), where), evaluate, effort, transfer, baselines)
        runs.setdefault(run.key, run)
    if not runs:
        raise DuetError(f"{source} has no run: every combination is skipped")
    return Study(name, tuple(runs.values()))


def _combinations(
    vary: Mapping[str, dict[str, dict[str, Any]]], source: str
) -> Iterator[tuple[Labels, dict[str, Any]]]:
    """Every combination: the name of each value, and what they change together."""
    count = 1
    for items in vary.values():
        count *= len(items)
    if count > MOST:
        raise DuetError(f"{source} has {count} combinations; {MOST} are the most")
    for chosen in product(*(items.items() for items in vary.values())):
        changes: dict[str, Any] = {}
        for key, (label, own) in zip(vary, chosen, strict=True):
            for changed in own:
                if changed in changes:
                    raise DuetError(f"{source}: {label} of {key} sets {changed}, which another list sets too")
            changes |= own
        yield {key: label for key, (label, _) in zip(vary, chosen, strict=True)}, changes


def _choices(key: str, items: Any, source: str) -> Choices:
    """The values of one list: name -> what it changes."""
    if not isinstance(items, list) or not items:
        raise DuetError(f"{source}: vary takes lists; {shown(key)} is {shown(items)}")
    known = {entry.name: str(entry.metadata["help"]) for entry in fields(Experiment)}
    choices: Choices = {}
    for item in items:
        if isinstance(item, Mapping):
            if "name" not in item:
                raise DuetError(
                    f"{source}: a value of {key} that changes several keys needs a name: {shown(dict(item))}"
                )
            label, changes = str(item["name"]), {str(k): value for k, value in item.items() if k != "name"}
        elif key not in known:
            hint = did_you_mean(key, known)
            raise DuetError(
                f"{source}: vary has an unknown key {shown(key)}{hint}; values of your own have a name and keys"
            )
        else:
            label = " ".join(map(str, item)) if isinstance(item, list) else str(item)
            changes = {key: item}
        if label in choices:
            raise DuetError(f"{source}: {key} has {label} twice")
        choices[label] = changes
    return choices


def _rule(rule: Any, vary: Mapping[str, Any], source: str) -> tuple[dict[str, list[str]], dict[str, Any]]:
    if not isinstance(rule, Mapping) or set(rule) != {"when", "set"} or not isinstance(rule["set"], Mapping):
        raise DuetError(f"{source}: a change is `when: {{...}}` and `set: {{...}}`, not {shown(rule)}")
    return _condition(rule["when"], vary, "change", source), {str(key): value for key, value in rule["set"].items()}


def _condition(when: Any, vary: Mapping[str, Any], what: str, source: str) -> dict[str, list[str]]:
    """The names that a combination must have, by key: one, or one of several."""
    if not isinstance(when, Mapping) or not when:
        raise DuetError(f"{source}: {what} needs conditions such as {{method: duet, group: rot4}}, not {shown(when)}")
    conditions = {}
    for key, names in when.items():
        if key not in vary:
            raise DuetError(
                f"{source}: {what} asks for {shown(key)}, which does not vary{did_you_mean(str(key), vary)}"
            )
        conditions[str(key)] = [str(name) for name in _listed(names)]
        for name in conditions[str(key)]:
            if name not in vary[key]:
                raise DuetError(f"{source}: {what} asks for {key} {name!r}{did_you_mean(name, vary[key])}; it has none")
    return conditions


def _holds(when: Mapping[str, Sequence[str]], labels: Labels) -> bool:
    return all(labels[key] in names for key, names in when.items())


def _mapping(values: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    found = values.get(key) or {}
    if not isinstance(found, Mapping):
        raise DuetError(f"{source}: {key} must hold `key: value` lines")
    return found


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _plain(text: str) -> str:
    """A part of a folder's name: letters, digits, dots and dashes inside."""
    return re.sub(r"[^A-Za-z0-9.+]+", "_", text).strip("._")[:60] or "x"
