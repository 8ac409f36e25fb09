"""How much of an image the features keep: the error of a decoder trained on them (the paper's Figure 8)."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor

from ..groups import Group
from .context import Context
from .decoder_training import describe_decoder
from .evaluation import Claim, Evaluation, register_evaluation
from .generation import reconstruction_errors, squared_errors
from .result import Result
from .wording import number


@register_evaluation
class Reconstruction(Evaluation):
    """|d(f(tau_g x)) - tau_g x|^2 on test images, mean over the pixels, at random g; d is trained on frozen features.

    Every encoder gets the same decoder, from the same weights, on the same views, without noise on the features: noise
    would not cost all of them the same. It is compared with the mean of the training images at random g.
    """

    name = "reconstruction"
    order = 72
    rivals = False  # a decoder each would cost more than the encoder
    on_request = True
    title = "Reconstruction"
    question = "How much of the image can be painted from its features?"
    shown = ("error", "mean_image_error")
    baselines = ("mean_image_error",)
    words = {"error": "squared error", "mean_image_error": "squared error of the mean image"}

    def measure(self, context: Context) -> Result:
        """Train the decoder without noise, and decode views of the test images."""
        decoder, training = context.decoder(noise=False)
        generator, group, images = context.generator("reconstruction"), context.group, context.images
        views = range(context.sizes.views)
        errors = torch.stack(
            [reconstruction_errors(decoder.images, context.subject.features, images, group, generator) for _ in views],
            dim=1,
        )  # (N, views)
        mean = mean_image(context.probe_images, group, generator)
        g = group.sample(len(images), generator)
        blind = squared_errors(mean.to(images.device), group.apply(images, g))
        scalars = {"error": float(errors.mean()), "mean_image_error": float(blind.mean())}
        facts = {"decoder": decoder.to_dict(), "training": asdict(training), "tested_images": len(images)}
        return Result("reconstruction", scalars, {}, facts, {"error": context.bootstrap(len(images)).mean(errors)})

    def claim(self, result: Result) -> Claim | None:
        """The image can be painted."""
        says, blind = "painted from the features to a squared error of {}", "the mean image"
        return Claim("error", False, result.scalars["mean_image_error"], what="painting", says=says, blind=blind)

    def measured(self, key: str) -> str:
        """Squared errors, all of the same views."""
        return "error"

    def chance(self, key: str, result: Result) -> float | None:
        """The mean image."""
        return result.scalars["mean_image_error"]

    def sentence(self, result: Result) -> str:
        """The error beside that of the mean image, and the decoder."""
        s = result.scalars
        words = describe_decoder(result.provenance)
        return (
            f"Painted from its features, an image has a squared error of {number(s['error'])}; the mean image has "
            f"{number(s['mean_image_error'])}. It was {words}."
        )


def mean_image(images: Tensor, group: Group, generator: torch.Generator) -> Tensor:
    """The mean of the images, each at a random element: (N,C,H,W) -> (1,C,H,W)."""
    parts = torch.split(images, 512)
    sums = [group.apply(part, group.sample(len(part), generator)).sum(0, keepdim=True) for part in parts]
    return torch.stack(sums).sum(0) / len(images)
