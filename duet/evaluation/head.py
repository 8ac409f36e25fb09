"""The tracking head alone: the linear classifier that was trained beside the encoder, as in the paper's tables."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np
import torch

from .classification import predict
from .context import Context
from .evaluation import Claim, Evaluation, Inapplicable, register_evaluation
from .result import Result
from .wording import percent


@register_evaluation
class Head(Evaluation):
    """Accuracy on the test split of the head that the run trained; nothing is fitted, so it takes seconds."""

    name = "head"
    order = 11
    title = "Tracking head"
    question = "How often is the linear head right that was trained beside the encoder?"
    per_group = False
    on_request = True  # classification has it too
    rivals = False  # who was not trained has no head
    shown = ("accuracy", "chance")
    baselines = ("chance",)
    words = {"chance": "by chance"}

    def measure(self, context: Context) -> Result:
        """The features of the test images, and what the head says of them."""
        head = context.subject.head
        if head is None:
            raise Inapplicable("there is no tracking head: it was not trained beside labelled images")
        test = context.test_features
        known = test.labels >= 0
        labels = test.labels[known].cpu().numpy()
        if not len(labels):
            raise Inapplicable(f"{PurePath(context.test.name).name} has no labels")
        right = torch.from_numpy(predict(head, test.z[known]) == labels).double()
        scalars = {"accuracy": float(right.mean()), "chance": float(np.bincount(labels).max() / len(labels))}
        intervals: dict[str, tuple[float, float]] = {"accuracy": context.bootstrap(len(labels)).share(right)}
        return Result("head", scalars, {}, {"labelled_test": len(labels)}, intervals)

    def claim(self, result: Result) -> Claim | None:
        """The head names the class."""
        says = "the tracking head names the class of {} of the images"
        words = {"what": "classes", "says": says, "blind": "the most common class"}
        return Claim("accuracy", True, result.scalars["chance"], **words)

    def chance(self, key: str, result: Result) -> float | None:
        """Always naming the most common class."""
        return result.scalars["chance"]

    def measured(self, key: str) -> str:
        """Accuracies."""
        return "accuracy"

    def text(self, key: str, value: float) -> str:
        """Accuracies in percent."""
        return percent(value)

    def sentence(self, result: Result) -> str:
        """The accuracy, beside that of the most common class."""
        s = result.scalars
        return (
            f"The head that was trained beside the encoder names the class of {percent(s['accuracy'])} of the test "
            f"images; always naming the most common class would be right for {percent(s['chance'])}."
        )
