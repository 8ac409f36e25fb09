"""What the frozen features know of the classes: logistic regression, nearest neighbours, the online head."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..networks import OnlineHead
from ..representation import Layout
from ..representation.moment import standardise
from .context import Context
from .evaluation import Claim, Evaluation, Inapplicable, register_evaluation
from .result import Array, Result
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Inverse regularisation strengths (scikit-learn's C) that are tried; features are standardised, so these span it."""
NEIGHBOURS = 20
TEMPERATURE = 0.07
ITERATIONS = 300  # of a logistic regression; one that needs more is not reported, as in the paper
SEEDS = 3  # choices of the held-out fifth that picks a strength
NAMED = 20  # classes that a table can name
WORDS = {
    "logistic": "linear classifier",
    "knn": "nearest neighbours",
    "head": "online head",
    "content": "content alone",
    "group": "group logits alone",
    "chance": "by chance",
    "deviation": "deviation between three choices of its strength",
}


class Fit(NamedTuple):
    """Predicted labels (n,) of the test features, and the strength that the held-out part chose.

    Both are None where the regression did not converge.
    """

    predicted: Array | None
    strength: float | None


@register_evaluation
class Classification(Evaluation):
    """Accuracy on the test split from features of the train split, no augmentation: all features, and parts of them."""

    name = "classification"
    order = 10
    title = "Classification"
    question = "What do the features know of what is in the image?"
    per_group = False
    shown = ("logistic", "logistic_content", "logistic_group", "knn", "head", "chance")
    baselines = ("chance",)
    words = WORDS
    captions = {
        "confusion": "Of every class (row), the percentage that the linear classifier took for each class (column). On "
        "the diagonal it is right.",
    }

    def measure(self, context: Context) -> Result:
        """Logistic regression, nearest neighbours and the online head."""
        return classify(context, context.subject.head)

    def summary(self, result: Result) -> dict[str, str]:
        """Both classifiers."""
        rows = {"logistic": "logistic regression, accuracy", "knn": "nearest neighbours, accuracy"}
        return {key: text for key, text in rows.items() if key in result.scalars}

    def claim(self, result: Result) -> Claim | None:
        """A linear classifier names the class; nothing is claimed where it did not converge."""
        if "logistic" not in result.scalars:
            return None
        says = "a linear classifier names the class of {} of the images"
        words = {"what": "classes", "says": says, "asked": "one of", "blind": "the most common class"}
        return Claim("logistic", True, result.scalars["chance"], **words)

    def chance(self, key: str, result: Result) -> float | None:
        """Always naming the most common class."""
        return None if key.endswith("_deviation") else result.scalars.get("chance")

    def measured(self, key: str) -> str:
        """Accuracies, all on the same test images."""
        return key if key.endswith("_deviation") else "accuracy"

    def text(self, key: str, value: float) -> str:
        """Accuracies in percent."""
        return percent(value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """The confusion matrix."""
        if "confusion" not in result.arrays:
            return {}
        from .drawing.confusion import draw_confusion

        classes = [str(name) for name in result.provenance.get("classes") or ()]
        return {"confusion": draw_confusion(result.arrays["confusion"], classes)}

    def sentence(self, result: Result) -> str:
        """The accuracy, beside that of the most common class."""
        s = result.scalars
        if "logistic" not in s:
            return (
                f"The linear classifier did not converge, so its accuracy is not reported; nearest neighbours have "
                f"the class of {percent(s['knn'])} of the test images, the most common class {percent(s['chance'])}."
            )
        text = (
            f"A linear classifier on the frozen features names the class of {percent(s['logistic'])} of the test images"
        )
        if "logistic_content" in s:
            text += f", from the content alone of {percent(s['logistic_content'])}"
        return f"{text}; always naming the most common class would be right for {percent(s['chance'])}."


def classify(context: Context, head: OnlineHead | None = None) -> Result:
    """Accuracy on the test split from features of the train split: all features, content, group, and a head's."""
    train, test = context.train_features, context.test_features
    kept = test.labels >= 0
    test_z, labels = test.z[kept], test.labels[kept].cpu().numpy()
    if not len(labels):
        raise Inapplicable(f"{PurePath(context.test.name).name} has no labels")
    scalars: dict[str, float] = {}
    chosen: dict[str, float | None] = {}
    missing: dict[str, str] = {}
    arrays: dict[str, Array] = {}
    views, test_views = _views(train.z, context.subject.layout), _views(test_z, context.subject.layout)
    draw = context.bootstrap(len(labels))
    intervals: dict[str, tuple[float, float]] = {}

    def note(key: str, predicted: Sequence[Array]) -> None:
        """Keep the mean accuracy of one prediction or of several, and how sure it is."""
        right = torch.from_numpy(np.stack([own == labels for own in predicted], 1)).double()
        scalars[key], intervals[key] = float(right.mean()), draw.share(right)

    for name, z in context.track(list(views.items()), len(views), "fitting classifiers"):
        z_test = test_views[name]
        suffix = "" if name == "flat" else f"_{name}"
        seeds = range(context.seed, context.seed + (SEEDS if name == "flat" else 1))
        fits = logistic_seeds(z, train.labels, z_test, seeds)
        predicted = [fit.predicted for fit in fits if fit.predicted is not None]
        note(f"knn{suffix}", [nearest_neighbours(z, train.labels, z_test).cpu().numpy()])
        chosen[name] = fits[0].strength
        if len(predicted) < len(fits):
            missing[f"logistic{suffix}"] = f"the regression did not converge in {ITERATIONS} iterations"
            continue
        note(f"logistic{suffix}", predicted)
        if name == "flat":
            arrays["confusion"] = confusion(labels, predicted[0])
            scalars["logistic_deviation"] = float(np.std([accuracy(own, labels) for own in predicted], ddof=1))
    if head is not None:
        note("head", [predict(head, test_z)])
    scalars["chance"] = float(np.bincount(labels).max() / len(labels))
    names = context.test.classes if context.test.classes and len(context.test.classes) <= NAMED else None
    facts: dict[str, Any] = {
        "regularisation": chosen,
        "labelled_train": len(train.labels),
        "labelled_test": len(labels),
    }
    facts["classes"] = None if names is None else list(names)
    if missing:
        facts["missing"] = missing
    return Result("classification", scalars, arrays, facts, intervals)


def logistic(
    z: Tensor,
    labels: Tensor,
    z_test: Tensor,
    seed: int = 0,
    strengths: Sequence[float] = STRENGTHS,
    dtype: torch.dtype = torch.float64,
) -> Fit:
    """Multinomial logistic regression on standardised features; C by a held-out fifth, then refitted on all.

    (N,D), (N,), (n,D) -> labels (n,). Of equally good strengths the strongest regularisation is taken. `dtype`:
    float32 takes half of the memory and of the time where features are many.
    """
    return logistic_seeds(z, labels, z_test, (seed,), strengths, dtype)[0]


def logistic_seeds(
    z: Tensor,
    labels: Tensor,
    z_test: Tensor,
    seeds: Sequence[int],
    strengths: Sequence[float] = STRENGTHS,
    dtype: torch.dtype = torch.float64,
) -> list[Fit]:
    """The same for several choices of the held-out fifth; what two of them share is fitted once.

    A strength whose fit does not converge is not chosen; where none does, or the last fit does not, there is no answer.
    """
    x, x_test = (part.to(dtype).cpu().numpy() for part in standardise(z, z_test))
    y = labels.cpu().numpy()
    chosen = [_choose_strength(x, y, seed, strengths) for seed in seeds]
    if len(np.unique(y)) < 2:
        return [Fit(np.full(len(x_test), y[0]), strength) for strength in chosen]
    fitted = {strength: _fit(x, y, strength) for strength in dict.fromkeys(chosen) if strength is not None}
    found = {strength: model.predict(x_test) for strength, model in fitted.items() if model is not None}
    return [Fit(found[strength], strength) if strength in found else Fit(None, None) for strength in chosen]


def _choose_strength(x: Array, y: Array, seed: int, strengths: Sequence[float]) -> float | None:
    """The C that does best on a held-out fifth, of those that converge; None if none does."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).numpy()
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]
    if len(set(strengths)) < 2 or not len(held) or len(np.unique(y[kept])) < 2:
        return min(strengths)
    fits = {candidate: _fit(x[kept], y[kept], candidate) for candidate in sorted(strengths)}
    scores = {c: accuracy(fit.predict(x[held]), y[held]) for c, fit in fits.items() if fit is not None}
    return max(scores, key=lambda candidate: scores[candidate], default=None)  # of equals the first


def nearest_neighbours(
    z: Tensor, labels: Tensor, z_test: Tensor, k: int = NEIGHBOURS, temperature: float = TEMPERATURE
) -> Tensor:
    """The class with the largest sum of exp(cosine / temperature) over the k nearest: (N,D), (N,), (n,D) -> (n,)."""
    bank = F.normalize(z, dim=1)
    classes = int(labels.max()) + 1
    votes = []
    for part in torch.split(F.normalize(z_test, dim=1), 1024):
        cosine, index = (part @ bank.T).topk(min(k, len(bank)), dim=1)
        # Relative to the nearest, so that the exponential cannot overflow at a low temperature.
        weight = ((cosine - cosine[:, :1]) / temperature).exp().float()
        votes.append(weight.new_zeros(len(part), classes).scatter_add_(1, labels[index], weight).argmax(1))
    return torch.cat(votes)


def predict(head: OnlineHead, z: Tensor) -> Array:
    """The class that a head names: (n,D) -> (n,)."""
    with torch.inference_mode():
        return head(z).argmax(1).cpu().numpy()  # type: ignore[no-any-return]


def accuracy(predicted: Array, labels: Array) -> float:
    """Share of predictions that are right."""
    return float(np.mean(predicted == labels))


def confusion(labels: Array, predicted: Array) -> Array:
    """How many images of class i (row) were taken for class j (column): (n,), (n,) -> (classes, classes)."""
    classes = int(max(labels.max(), predicted.max())) + 1
    table = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(table, (labels, predicted), 1)
    return table


def _views(z: Tensor, layout: Layout) -> dict[str, Tensor]:
    """All features, the content alone, and the group logits of every axis: (N,D) -> (N,.) each."""
    if not layout.axes:
        return {"flat": z}
    group = torch.cat([layout.group_logits(z, axis) for axis in layout.axes], 1)
    return {"flat": z, "content": layout.content(z), "group": group}


def _fit(x: Array, y: Array, strength: float) -> Any | None:
    """The regression; None where it does not converge."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return LogisticRegression(C=strength, max_iter=ITERATIONS, tol=1e-3).fit(x, y)
        except ConvergenceWarning:
            return None
