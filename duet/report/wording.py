"""What the page says of results: every word of it comes from the evaluation that measured them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..evaluation import EVALUATIONS, Result
from ..evaluation.evaluation import evaluation_of
from ..evaluation.wording import number
from ..groups import GROUPS
from ..methods import METHODS

if TYPE_CHECKING:
    from .gathering import Run

LAST = {"head": "online head, loss", "head_accuracy": "online head, accuracy", "lr": "learning rate"}


def curves() -> dict[str, str]:
    """What a run logs, in words and in order: the loss, the terms of every method, and what only watches."""
    terms = {name: words for method in METHODS.values() for name, words in method.words.items()}
    return {"loss": "total loss", **terms, **LAST}


def title(name: str, runs: Sequence[Run] = ()) -> tuple[str, str]:
    """The heading of a result and the question that it answers; its group is named where runs have several."""
    evaluation, (_, _, group) = evaluation_of(name), name.partition("-")
    if evaluation is None:
        return name.replace("_", " "), ""
    if any(other.startswith(f"{name}-") for run in runs for other in run.results):
        group = str(next(run.results[name].provenance.get("group", "") for run in runs if name in run.results))
    return (f"{evaluation.title}: {noun(group)}" if group else evaluation.title), evaluation.question


def noun(group: str) -> str:
    """A group in plain words."""
    return (GROUPS[group].title or group) if group in GROUPS else group


def method_title(name: str) -> str:
    """A method as it is written."""
    return METHODS[name].title if name in METHODS else name


def rank(name: str) -> tuple[int, str]:
    """Results are shown in the order of the evaluations, of the first group first; unknown ones last."""
    order = list(EVALUATIONS)
    base = name.partition("-")[0]
    return (order.index(base) if base in order else len(order)), name


def read_out(name: str, result: Result) -> str:
    """What a result says, in one sentence; nothing when it lacks the numbers for it."""
    evaluation = evaluation_of(name)
    try:
        return evaluation.sentence(result) if evaluation else ""
    except Exception:  # a stranger's numbers can fail anywhere in a sentence
        return ""


def write(name: str, key: str, value: float) -> str:
    """A number as its evaluation writes it."""
    evaluation = evaluation_of(name)
    return number(value) if evaluation is None else evaluation.text(key, value)


def label(name: str, key: str) -> str:
    """A number's name in the words of its evaluation."""
    evaluation = evaluation_of(name)
    return key.replace("_", " ") if evaluation is None else evaluation.label(key)
