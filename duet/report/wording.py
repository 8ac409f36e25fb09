"""What the numbers mean, in plain words: a question and a sentence for every evaluation, a label for every number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..evaluation import Result
from ..evaluation.element import unit_name
from ..evaluation.marginals import advice

METHODS = {"duet": "DUET", "simclr": "SimCLR", "essl": "ESSL"}
NOUNS = {"rot360": "rotation", "rot4": "quarter turn", "hflip": "left-right flip", "vflip": "up-down flip"}
TITLES = {
    "classification": ("Classification", "What do the features know of what is in the image?"),
    "recovery": ("Recovery", "How well can the transformation's parameter be read off the features?"),
    "equivariance": ("Equivariance", "Does T_g do to the features what the transformation does to the image?"),
    "retrieval": ("Retrieval", "Do moved features find the image that was truly moved?"),
    "marginals": ("Ambiguity", "Do the images have an upright, or do they come at every element already?"),
    "dependence": ("Dependence", "Are content and group independent of each other, given the image?"),
    "generation": ("Generation", "What does the decoder show when only the features are moved?"),
    "transfer": ("Transfer", "How good are the features on other sets of images?"),
    "cost": ("Cost", "What does training cost beside SimCLR?"),
}
TOPS = ("Linear accuracy", "Read off", "Equivariance error, fitted")
CURVES = {
    "loss": "total loss",
    "content": "content loss",
    "group": "group loss, weighted",
    "prediction": "prediction loss, weighted",
    "head": "online head, loss",
    "head_accuracy": "online head, accuracy",
    "lr": "learning rate",
}
WORDS = {"hit1": "Hit@1", "hit5": "Hit@5", "mrr": "MRR", "r2": "R²", "head": "online head"}
WORDS |= {"logistic": "linear classifier", "knn": "nearest neighbours", "delta_p": "ΔP", "chance": "by chance"}
BEFORE = {
    "content_probe": "linear probe of the content",
    "probe": "linear probe",
    "constant": "ignoring the image",
    "chance": "by chance",
}
AFTER = {
    "prescribed": "the paper's T_g",
    "fitted": "fitted action",
    "logits": "on group logits",
    "circle": "through a disc",
    "zero": "with black corners",
    "degrees": "degrees",
    "content": "content alone",
    "group": "group logits alone",
    "images": "test images",
    "iid_pixels": "noise images",
    "iid_features": "random features",
}
"""Beginnings and ends of the names of numbers, in plain words."""


class Measure(NamedTuple):
    """A number for the top of the page: its value as text and as number, and what it should be seen beside."""

    label: str
    text: str
    value: float
    beside: str
    higher: bool  # is better
    unit: str = ""


def title(name: str) -> tuple[str, str]:
    """The heading of a result and the question that it answers."""
    base, _, group = name.partition("-")
    if base not in TITLES:
        return name.replace("_", " "), ""
    heading, question = TITLES[base]
    return (f"{heading}: {noun(group)}" if group else heading), question


def noun(group: str) -> str:
    """A group in plain words."""
    return NOUNS.get(group, group)


def read_out(name: str, result: Result) -> str:
    """What a result says, in one sentence; nothing when it lacks the numbers for it."""
    reader = READERS.get(name.partition("-")[0])
    try:
        return reader(result.scalars, result.provenance) if reader else ""
    except (KeyError, TypeError, ValueError):
        return ""


def measures(results: Mapping[str, Result]) -> dict[str, Measure]:
    """The numbers for the top of the page, by what they measure; those that matter most come first."""
    found: dict[str, Measure] = {}
    for name, pick in PICKS.items():
        result = results.get(name)
        if result is None:
            continue
        try:
            found |= {m.label: m for m in pick(result.scalars, result.provenance) if math.isfinite(m.value)}
        except (KeyError, TypeError, ValueError):
            continue
    return found


def tiles(found: Mapping[str, Measure]) -> list[Measure]:
    """Three numbers for the top of a single run's page: content, group, and how the two move."""
    tops = [next((m for text, m in found.items() if text.startswith(start)), None) for start in TOPS]
    others = [m for m in found.values() if m not in tops]
    return [*(m for m in tops if m is not None), *others][:3]


def label(key: str) -> str:
    """A number's name as words: content_probe_median_error_degrees -> linear probe of the content: median error, ..."""
    before = ""
    after: list[str] = []
    for start, words in BEFORE.items():
        if key.startswith(f"{start}_"):
            before, key = f"{words}: ", key.removeprefix(f"{start}_")
            break
    while end := next((end for end in AFTER if key.endswith(f"_{end}")), None):
        after.insert(0, AFTER[end])
        key = key.removesuffix(f"_{end}")
    middle = WORDS.get(key) or " ".join(WORDS.get(word, word) for word in re.split(r"_+", key) if word)
    return before + ", ".join([middle, *after])


def percent(value: float) -> str:
    """0.969 -> 96.9 %, never broken between the two."""
    return "not a number" if not math.isfinite(value) else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def number(value: float) -> str:
    """Three digits that matter."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def amount(value: float, unit: str) -> str:
    """A raw parameter with its unit."""
    if unit == "degrees":
        return f"{value:.1f}°"
    return f"{value:.2g} {unit}".strip()


Numbers = Mapping[str, float]
Facts = Mapping[str, Any]


def _classification(s: Numbers, p: Facts) -> str:
    text = f"A linear classifier on the frozen features names the class of {percent(s['logistic'])} of the test images"
    if "logistic_content" in s:
        text += f", from the content alone of {percent(s['logistic_content'])}"
    return f"{text}; always naming the most common class would be right for {percent(s['chance'])}."


def _recovery(s: Numbers, p: Facts) -> str:
    unit, what = unit_name(p["unit"]), noun(p["group"])
    blind = amount(s[f"constant_median_error_{unit}"], p["unit"])
    if "accuracy" in s:
        return f"Read off P(g|x) without any head, the {what} is right for {percent(s['accuracy'])} of the images."
    if p.get("relative") and f"median_difference_error_{unit}" in s:
        found = amount(s[f"median_difference_error_{unit}"], p["unit"])
        return f"The {what} between two views of an image is read off to within {found} (median), without any head."
    if f"median_error_{unit}" not in s:
        found = amount(s[f"probe_median_error_{unit}"], p["unit"])
        return (
            f"The features have no columns for the {what}; a linear probe that is trained on labels reads it to within "
            f"{found} (median), where ignoring the image is off by {blind}."
        )
    found = amount(s[f"median_error_{unit}"], p["unit"])
    text = f"Read off P(g|x) without any head, the {what} is off by {found} (median)"
    if f"median_error_{unit}_circle" in s:
        hidden = amount(s[f"median_error_{unit}_circle"], p["unit"])
        text += f", and by {hidden} through a disc that hides the telling corners"
    return f"{text}; an answer that ignores the image is off by {blind}."


def _equivariance(s: Numbers, p: Facts) -> str:
    text = f"After the fitted action {percent(s['error_fitted'])} of the squared distance to the truth is left"
    if "error_prescribed" in s:
        text += f", after the paper's T_g {percent(s['error_prescribed'])}"
    guard = "" if s["sensitivity"] > 0.05 else " Beware: these features hardly move, so any action looks good."
    return (
        f"{text}; without any action it would be 100\N{NO-BREAK SPACE}%. Transforming an image moves its features "
        f"{s['sensitivity']:.2g} times as far (squared) as taking another image does.{guard}"
    )


def _retrieval(s: Numbers, p: Facts) -> str:
    text = (
        f"Among {int(p['copies'])} transformed copies of an image, features moved by the fitted action lie nearest to"
    )
    text += f" the right one in {percent(s['hit1_fitted'])} of the cases"
    if "hit1_prescribed" in s:
        text += f", moved by the paper's T_g in {percent(s['hit1_prescribed'])}"
    return f"{text}; chance is {percent(s['chance_hit1'])}."


def _marginals(s: Numbers, p: Facts) -> str:
    found = advice(s["ambiguity"], s["ambiguity_of_guesses"], noun(p["group"]))
    return f"{found} Ambiguity {s['ambiguity']:.2f}: 0 means that all images are upright, 1 that none is."


def _dependence(s: Numbers, p: Facts) -> str:
    return (
        f"P(c,g|x) differs from the product of its marginals by ΔP = {number(s['delta_p_images'])} on test images, "
        f"{number(s['delta_p_iid_pixels'])} on noise and {number(s['delta_p_iid_features'])} for random features; "
        "0 would be independent."
    )


def _generation(s: Numbers, p: Facts) -> str:
    text = f"Decoded after the fitted action, an image has a squared error of {number(s['action_error_fitted'])}"
    if "action_error_prescribed" in s:
        text += f", after the paper's T_g of {number(s['action_error_prescribed'])}"
    return (
        f"{text}; the decoder itself has {number(s['reconstruction_error'])}, "
        f"and doing nothing {number(s['no_action_error'])}."
    )


READERS: dict[str, Callable[[Numbers, Facts], str]] = {
    "classification": _classification,
    "recovery": _recovery,
    "equivariance": _equivariance,
    "retrieval": _retrieval,
    "marginals": _marginals,
    "dependence": _dependence,
    "generation": _generation,
}


def _pick_classification(s: Numbers, p: Facts) -> list[Measure]:
    value = s["logistic"]
    return [Measure("Linear accuracy", percent(value), value, f"most common class: {percent(s['chance'])}", True)]


def _pick_recovery(s: Numbers, p: Facts) -> list[Measure]:
    unit, what = unit_name(p["unit"]), noun(p["group"])
    beside = f"ignoring the image: {amount(s[f'constant_median_error_{unit}'], p['unit'])}"
    relative = bool(p.get("relative"))
    kind = "median_difference_error" if relative else "median_error"
    entries = {
        f"Read off: {what}{' between views' * relative}, median error": f"{kind}_{unit}",
        f"Linear probe: {what}, median error": f"probe_median_error_{unit}",
    }
    return [
        Measure(text, amount(s[key], p["unit"]), s[key], beside, False, unit)
        for text, key in entries.items()
        if key in s
    ]


def _pick_equivariance(s: Numbers, p: Facts) -> list[Measure]:
    keys = {"Equivariance error, fitted": "error_fitted", "Equivariance error, T_g": "error_prescribed"}
    return [
        Measure(text, number(s[key]), s[key], "no action: 1", False, "ratio") for text, key in keys.items() if key in s
    ]


def _pick_retrieval(s: Numbers, p: Facts) -> list[Measure]:
    value, copies = s["hit1_fitted"], int(p["copies"])
    return [Measure(f"Hit@1 of {copies}, fitted", percent(value), value, f"chance: {percent(s['chance_hit1'])}", True)]


def _pick_generation(s: Numbers, p: Facts) -> list[Measure]:
    value, beside = s["action_error_fitted"], f"decoder alone: {number(s['reconstruction_error'])}"
    return [Measure("Decoded image error, fitted", number(value), value, beside, False)]


PICKS: dict[str, Callable[[Numbers, Facts], list[Measure]]] = {
    "classification": _pick_classification,
    "recovery": _pick_recovery,
    "equivariance": _pick_equivariance,
    "retrieval": _pick_retrieval,
    "generation": _pick_generation,
}
