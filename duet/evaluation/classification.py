"""What the frozen features know of the classes: logistic regression, nearest neighbours, the online head."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..data import open_images
from ..representation import Layout
from .context import Context
from .result import Array, Result
from .subject import Inapplicable

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Inverse regularisation strengths (scikit-learn's C) that are tried; features are standardised, so these span it."""
NEIGHBOURS = 20
TEMPERATURE = 0.07


class Fit(NamedTuple):
    """Predicted labels (n,) of the test features, and the strength that the held-out part chose."""

    predicted: Array
    strength: float


def classify(context: Context) -> Result:
    """Accuracy on the test split from features of the train split, no augmentation: all features, and parts of them."""
    train, test = context.train_features, context.test_features
    kept = test.labels >= 0
    test_z, labels = test.z[kept], test.labels[kept].numpy()
    if not len(labels):
        raise Inapplicable(f"{PurePath(context.test.name).name} has no labels")
    scalars: dict[str, float] = {}
    chosen: dict[str, float] = {}
    arrays: dict[str, Array] = {}
    views, test_views = _views(train.z, context.subject.layout), _views(test_z, context.subject.layout)
    for name, z in context.track(list(views.items()), len(views), "classifiers"):
        z_test = test_views[name]
        suffix = "" if name == "flat" else f"_{name}"
        fit = logistic(z, train.labels, z_test, seed=context.seed)
        scalars[f"logistic{suffix}"] = accuracy(fit.predicted, labels)
        scalars[f"knn{suffix}"] = accuracy(nearest_neighbours(z, train.labels, z_test).numpy(), labels)
        chosen[name] = fit.strength
        if name == "flat":
            arrays["confusion"] = confusion(labels, fit.predicted)
    if context.subject.head is not None:
        with torch.inference_mode():
            scalars["head"] = accuracy(context.subject.head(test_z).argmax(1).numpy(), labels)
    scalars["chance"] = float(np.bincount(labels).max() / len(labels))
    provenance = {**context.provenance(), "regularisation": chosen, "labelled_train": len(train.labels)}
    return Result("classification", scalars, arrays, {**provenance, "labelled_test": len(labels)})


def transfer(context: Context, names: Sequence[str], **options: Any) -> Result:
    """The same over other sets of images: scalars `NAME/logistic` and so on; `options` go to `open_images`."""
    scalars: dict[str, float] = {}
    sets = {}
    options = {"image_size": context.test.shape[1], "channels": context.test.channels, **options}
    for name in names:
        train, test = (open_images(name, split, **options) for split in ("train", "test"))
        # No head: it was trained for the classes of another set.
        subject = replace(context.subject, head=None)
        found = classify(replace(context, subject=subject, train=train, test=test, _cache={}))
        short = PurePath(name).name
        scalars |= {f"{short}/{key}": value for key, value in found.scalars.items()}
        sets[short] = found.provenance
    return Result("transfer", scalars, {}, {**context.provenance(), "sets": sets})


def logistic(z: Tensor, labels: Tensor, z_test: Tensor, seed: int = 0, strengths: Sequence[float] = STRENGTHS) -> Fit:
    """Multinomial logistic regression on standardised features; C by a held-out fifth, then refitted on all.

    (N,D), (N,), (n,D) -> labels (n,). Of equally good strengths the strongest regularisation is taken.
    """
    mean, scale = z.mean(0), z.std(0)
    scale = torch.where(scale > 1e-6 * (mean.abs() + scale.max()), scale, 1.0)
    x, x_test = (((part - mean) / scale).double().numpy() for part in (z, z_test))
    y = labels.numpy()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).numpy()
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]
    best, strength = -1.0, min(strengths)
    if len(set(strengths)) > 1 and len(held) and len(np.unique(y[kept])) > 1:
        for candidate in sorted(strengths):
            score = accuracy(_fit(x[kept], y[kept], candidate).predict(x[held]), y[held])
            if score > best:
                best, strength = score, candidate
    if len(np.unique(y)) < 2:
        return Fit(np.full(len(x_test), y[0]), strength)
    return Fit(_fit(x, y, strength).predict(x_test), strength)


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
        weight = ((cosine - cosine[:, :1]) / temperature).exp()
        votes.append(torch.zeros(len(part), classes).scatter_add_(1, labels[index], weight.float()).argmax(1))
    return torch.cat(votes)


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


def _fit(x: Array, y: Array, strength: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # The last digits of the weights do not change a prediction.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, max_iter=300, tol=1e-3).fit(x, y)
