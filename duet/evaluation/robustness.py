"""Do nearest neighbours still have the right class when the image is transformed?"""

from __future__ import annotations

import torch
from torch import Tensor

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
        bank, labels, images = context.train_features, context.image_labels, context.images
        if labels is None or not bool((labels >= 0).any()):
            raise Inapplicable("the test images have no labels")
        known = labels >= 0
        images, labels = images[known.to(images.device)], labels[known]
        g = context.group.sample(len(labels), context.generator("robustness"))
        still = torch.full_like(g, context.group.identity)
        right = [self._right(context, images, labels, elements, bank.z, bank.labels) for elements in (still, g)]
        draw = context.bootstrap(len(labels))
        names = ("knn_untouched", "knn_transformed")
        scalars = {name: float(hits.mean()) for name, hits in zip(names, right, strict=True)}
        intervals: dict[str, tuple[float, float]] = {
            name: draw.mean(hits) for name, hits in zip(names, right, strict=True)
        }
        scalars["loss"] = scalars["knn_untouched"] - scalars["knn_transformed"]
        intervals["loss"] = draw.difference_of_means(right[0], right[1])
        scalars["chance"] = float(torch.bincount(labels).max() / len(labels))
        return Result("robustness", scalars, {}, {"tested_images": len(labels)}, intervals)

    def sentence(self, result: Result) -> str:
        """Both accuracies."""
        s = result.scalars
        return (
            f"Nearest neighbours have the class of {percent(s['knn_untouched'])} of the untouched images and of "
            f"{percent(s['knn_transformed'])} of the transformed ones; chance is {percent(s['chance'])}."
        )

    def _right(
        self, context: Context, images: Tensor, labels: Tensor, g: Tensor, bank: Tensor, classes: Tensor
    ) -> Tensor:
        z = context.at(images, g, context.group)
        return (nearest_neighbours(bank, classes, z).cpu() == labels).double()
