"""The features on other sets of images than their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from ..data import open_images
from .classification import WORDS, classify
from .context import Context
from .evaluation import Evaluation, Inapplicable, register_evaluation
from .result import Result


@register_evaluation
class Transfer(Evaluation):
    """The same over other sets of images, those that the context names: scalars `NAME/logistic` and so on."""

    name = "transfer"
    order = 80
    title = "Transfer"
    question = "How good are the features on other sets of images?"
    per_group = False
    on_request = True
    shown = ("*/logistic", "*/chance", "*")
    words = WORDS

    def measure(self, context: Context) -> Result:
        """Classification on every set that is named."""
        if not context.transfer:
            raise Inapplicable("name the sets of images with --transfer")
        return transfer(context, context.transfer)

    def still_holds(self, kept: Result, context: Context) -> bool:
        """Whether it is of the sets that are named now, and of their images."""
        sets = kept.provenance.get("sets")
        if not isinstance(sets, dict) or set(map(_short, context.transfer)) != sets.keys():
            return False
        found = {_short(name): _on(context, name).provenance()["fingerprint"] for name in context.transfer}
        return all(isinstance(facts, dict) and facts.get("fingerprint") == found[name] for name, facts in sets.items())


def transfer(context: Context, names: Sequence[str], **options: Any) -> Result:
    """Classification on other sets of images; `options` go to `open_images`."""
    scalars: dict[str, float] = {}
    sets = {}
    missing: dict[str, str] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for name in names:
        other = _on(context, name, **options)
        found = classify(other)
        short = _short(name)
        scalars |= {f"{short}/{key}": value for key, value in found.scalars.items()}
        intervals |= {f"{short}/{key}": ends for key, ends in found.intervals.items()}
        missing |= {f"{short}/{key}": why for key, why in found.provenance.get("missing", {}).items()}
        sets[short] = {**other.provenance(), **found.provenance}
    facts = {"sets": sets, **({"missing": missing} if missing else {})}
    return Result("transfer", scalars, {}, facts, intervals)


def _short(name: str) -> str:
    """What a set is called among the scalars: of a path its last part."""
    return PurePath(name).name


def _on(context: Context, name: str, **options: Any) -> Context:
    """The same subject on another set of images. No head: it was trained for the classes of another set."""
    options = {"image_size": context.test.shape[1], "channels": context.test.channels, **options}
    train, test = (open_images(name, split, **options) for split in ("train", "test"))
    return replace(context, train=train, test=test, _cache={})
