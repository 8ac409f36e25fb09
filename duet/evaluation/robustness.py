"""Do nearest neighbours still have the right class when the image is transformed?"""

from __future__ import annotations

import torch

from .classification import nearest_neighbours
from .context import Context
from .evaluation import Evaluation, Inapplicable, register_evaluation
from .result import Result
from .wording import percent


@register_evaluation
class Robustness(Evaluation):
    """Accuracy of nearest neighbours among untouched training images, for test images as they are and transformed."""

    name = "robustness"
    order = 45
    title = "Robustness"
    question = "Do nearest neighbours still have the right class when the image is transformed?"
    on_request = True
    shown = ("knn_untouched", "knn_transformed", "loss", "chance")
    words = {"knn": "nearest neighbours", "untouched": "untouched image", "transformed": "transformed image"}

    def measure(self, context: Context) -> Result:
        """Every test image at the identity and at a random element; both through what the group lets see."""
        bank, test = context.train_features, context.test_features
        known = test.labels >= 0
        labels = test.labels[known].cpu()
        if not len(labels):
            raise Inapplicable("the test images have no labels")
        g = context.group.sample(len(test.z), context.generator("robustness"))
        seen = {"knn_untouched": context.test_features_at(None), "knn_transformed": context.test_features_at(g)}
        right = {
            name: (nearest_neighbours(bank.z, bank.labels, z[known]).cpu() == labels).double()
            for name, z in seen.items()
        }
        draw = context.bootstrap(len(labels))
        scalars = {name: float(hits.mean()) for name, hits in right.items()}
        intervals: dict[str, tuple[float, float]] = {name: draw.share(hits) for name, hits in right.items()}
        scalars["loss"] = scalars["knn_untouched"] - scalars["knn_transformed"]
        intervals["loss"] = draw.difference_of_shares(right["knn_untouched"], right["knn_transformed"])
        scalars["chance"] = float(torch.bincount(labels).max() / len(labels))
        return Result("robustness", scalars, {}, {"labelled_test": len(labels)}, intervals)

    def still_holds(self, kept: Result, context: Context) -> bool:
        """Whether it was measured on all test images, as classification is."""
        return "labelled_test" in kept.provenance

    def measured(self, key: str) -> str:
        """Accuracies on the same images."""
        return key if key == "loss" else "accuracy"

    def sentence(self, result: Result) -> str:
        """Both accuracies."""
        s = result.scalars
        return (
            f"Nearest neighbours have the class of {percent(s['knn_untouched'])} of the untouched images and of "
            f"{percent(s['knn_transformed'])} of the transformed ones; chance is {percent(s['chance'])}."
        )
