"""What a linear classifier names from k-means on whitened patches, which is fitted without any gradient.

DUET_DATA=... python benchmarks/patches.py [--data cifar10] [--centroids 400 800] [--widths 512 256 128] [--out FILE]

For every number of centroids: the accuracy on the test images of the project's own logistic regression, on all 4K
features and on their first principal components, and the seconds of processor time of each part. Beside them the speed
of coding, over that of a plain loop over batches in the same run; both take turns, so that the ratio holds on a busy
machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from measure import write
from torch import Tensor
from torch.nn import functional as F

from duet.data import Images, open_images
from duet.evaluation.classification import accuracy, logistic
from duet.evaluation.patches import CONTRAST, SIDE, PatchEncoder, fit_axes, fit_patches

T = TypeVar("T")
STRENGTHS = (
    0.001,
    0.01,
    0.1,
)  # of the regression that are tried; of thousands of features, weaker ones converge slowly


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and its seconds of processor time."""
    start = time.process_time()
    return run(), time.process_time() - start


def plain_codes(encoder: PatchEncoder, images: Tensor) -> Tensor:
    """The codes of a batch of images at once, in as many steps as the formula has: (N,C,H,W) -> (N,4K)."""
    patches = F.unfold(images, SIDE).transpose(1, 2)
    patches = patches - patches.mean(2, keepdim=True)
    patches = patches / (patches.square().mean(2, keepdim=True) + CONTRAST).sqrt()
    distances = torch.cdist((patches - encoder.mean) @ encoder.whitening, encoder.centroids)
    codes = (distances.mean(2, keepdim=True) - distances).clamp(min=0)
    height, width = (side - SIDE + 1 for side in images.shape[2:])
    codes = codes.view(len(images), height, width, -1)
    rows, columns = (torch.tensor_split(torch.arange(side), 2) for side in (height, width))
    parts = [codes[:, own[0] : own[-1] + 1, other[0] : other[-1] + 1] for own in rows for other in columns]
    return torch.cat([part.sum((1, 2)) for part in parts], 1)


def speed(encoder: PatchEncoder, images: Tensor, rounds: int = 7) -> dict[str, Any]:
    """Images a second of the encoder and of the plain loop with batches of several sizes, in turns."""
    ways: dict[str, Callable[[], Iterable[Tensor]]] = {"blocks": lambda: [encoder(images)]}
    for batch in (1, 8, 64):
        ways[f"plain, {batch} at a time"] = lambda batch=batch: [  # type: ignore[misc]
            plain_codes(encoder, part) for part in torch.split(images, batch)
        ]
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            seconds[name].append(timed(run)[1])
    rate = {name: len(images) / statistics.median(own) for name, own in seconds.items()}
    return {
        "images_per_second": {name: round(own, 1) for name, own in rate.items()},
        "blocks_over": {name: round(rate["blocks"] / own, 2) for name, own in rate.items() if name != "blocks"},
        "largest_difference": float((encoder(images) - plain_codes(encoder, images)).abs().max()),
        "largest_code": float(encoder(images).max()),
    }


def codes_of(encoder: PatchEncoder, images: Images) -> tuple[Tensor, Tensor]:
    """Codes and labels of all images: (N,4K), (N,)."""
    parts = [(encoder(pixels), labels) for pixels, labels in images.in_order()]
    return torch.cat([own for own, _ in parts]), torch.cat([labels for _, labels in parts if labels is not None])


def measured(
    train: Images, test: Images, centroids: int, widths: list[int], seed: int
) -> Iterator[tuple[str, dict[str, Any] | float]]:
    """Seconds and accuracies for one number of centroids, each as soon as it is known."""
    encoder, seconds = timed(lambda: fit_patches(train, centroids, seed))
    yield "fit_seconds", round(seconds, 1)
    yield "speed", speed(encoder, test.sample(64, seed).float() / 255)
    ((z, labels), (z_test, test_labels)), seconds = timed(lambda: (codes_of(encoder, train), codes_of(encoder, test)))
    yield "code_seconds", round(seconds, 1)
    axes, seconds = timed(lambda: fit_axes(encoder, train, seed))
    yield "axes_seconds", round(seconds, 1)
    for width in [*(width for width in sorted(widths) if width < z.shape[1]), z.shape[1]]:
        own, other = (part if width == z.shape[1] else axes(part, width) for part in (z, z_test))
        start = time.process_time()
        fit = logistic(own, labels, other, seed, STRENGTHS, torch.float32)
        right = None if fit.predicted is None else accuracy(fit.predicted, test_labels.numpy())
        seconds = round(time.process_time() - start, 1)
        yield f"{width} features", {"accuracy": right, "strength": fit.strength, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="cifar10", help="a set by name [%(default)s]")
    parser.add_argument("--centroids", type=int, nargs="+", default=[400, 800], metavar="K")
    parser.add_argument("--widths", type=int, nargs="*", default=[512, 256, 128], metavar="D")
    parser.add_argument("--images", type=int, help="of the training images only so many, for a trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON; others that it holds stay")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    train, test = (open_images(options.data, split) for split in ("train", "test"))
    if options.images is not None:
        train = train.part(torch.arange(len(train))[: options.images])
    figures: dict[str, Any] = {}
    if options.out and options.out.exists():
        figures = json.loads(options.out.read_text())
        figures.pop("machine", None)
    for centroids in options.centroids:
        own: dict[str, Any] = {"seed": options.seed, "train_images": len(train), "test_images": len(test)}
        figures[f"{options.data}, {centroids} centroids"] = own
        for name, value in measured(train, test, centroids, options.widths, options.seed):
            own[name] = value
            print(f"{centroids} centroids, {name}: {json.dumps(value)}", flush=True)
            if options.out:
                write(options.out, figures)


if __name__ == "__main__":
    main()
