"""What can be told before the first step: what cannot work is refused, what will learn little is warned of."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import torch

from ..error import DuetError, first_line
from ..networks import Backbone
from ..networks.stride import stride_of
from .process import rank

if TYPE_CHECKING:
    from .experiment import Experiment

log = logging.getLogger(__name__)

LARGEST = 1e18
"""Of lambda and 1 / temperature: the optimiser squares gradients, and float32 ends at 3e38. Beyond it nothing moves."""
HOTTEST = 1e6
"""A temperature above it leaves differences of the pairs that float32 rounds away."""
FEW_STEPS, ENOUGH_STEPS = 100, 1000
"""Steps below which a run is warned of, and the number that it is told to aim at."""


def check_scales(temperature: float, weight: float | None) -> None:
    """Refuse a temperature or a weight with which float32 overflows or rounds the loss away."""
    if not 1 / LARGEST <= temperature <= HOTTEST:
        raise DuetError(
            f"temperature must lie from {1 / LARGEST:g} to {HOTTEST:g}, or float32 cannot hold the loss; it is "
            f"{temperature:g}, and 0.1 is usual"
        )
    if weight is not None and weight > LARGEST:
        raise DuetError(
            f"weight must be at most {LARGEST:g}, or float32 cannot hold the squares of its gradients; it is "
            f"{weight:g}, and 1 to 1000 are usual"
        )


def check_batch(count: int, experiment: Experiment) -> None:
    """Refuse a batch that is larger than the set: there would be no step."""
    e = experiment
    if count < e.joined_batch:
        joined = f" x --accumulate {e.accumulate}" if e.pieces > 1 else ""
        most = count // e.pieces
        advice = f"give --batch-size {most} or less" if most else "there must be more images"
        raise DuetError(
            f"{count} images make no batch of {e.joined_batch} (--batch-size {e.batch_size}{joined}): {advice}"
        )


def warn_of_few_steps(count: int, experiment: Experiment) -> None:
    """Say so where `count` images make only a handful of steps."""
    e = experiment
    batches = count // e.joined_batch
    steps = math.ceil(batches * e.epochs / e.added_batches)
    if steps < FEW_STEPS and rank() == 0:
        epochs = math.ceil(ENOUGH_STEPS * e.added_batches / batches)
        log.warning(
            "%d step(s) in all teach little: %d epoch(s) of %d batch(es) of %d, from %d images; --epochs %d would make "
            "%d steps, and with a smaller --batch-size fewer epochs do",
            *(steps, e.epochs, batches, e.joined_batch, count, epochs, ENOUGH_STEPS),
        )


def warn_of_small_images(backbone: Backbone, experiment: Experiment, size: tuple[int, int]) -> None:
    """Say so where images are smaller than the backbone's stride; refuse those that it cannot take at all."""
    trunk, shown = backbone.trunk, f"{size[1]} x {size[0]}"
    if trunk is not None:
        if trunk.side == 1 and experiment.grid != 1:
            _warn_of_size(f"what {trunk.name} makes of images of {shown} is a single place")
        return
    zeros = torch.zeros(2, backbone.channels, *size, device=backbone.mean.device, dtype=backbone.mean.dtype)
    try:
        stride = stride_of(backbone, zeros)
    except RuntimeError as error:
        reason = f"{experiment.encoder} cannot take images of {shown}: {first_line(error)}"
        raise DuetError(f"{reason}; give another --image-size") from error
    if min(size) < stride:
        reason = f"images of {shown} are smaller than the stride of {experiment.encoder}, {stride} or more"
        _warn_of_size(f"{reason}: they become a single place")


def _warn_of_size(reason: str) -> None:
    if rank() == 0:
        log.warning("%s, and little is left to tell a pose from; give a larger --image-size or another network", reason)
