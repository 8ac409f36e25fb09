"""The network of a run: a backbone by name, or a neck on a pretrained trunk, and what goes through the trunk once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..data import Images
from ..device import find_device
from ..error import DuetError
from ..groups import Stack
from ..methods import Method
from ..networks import BACKBONES, Backbone, OnTrunk, build_backbone, build_on_trunk
from ..networks.backbone import check_encoder
from ..networks.trunk import LITE0, check_trunk_name
from ..pixels import as_float
from .cache import CachedViews, cache_views, map_statistics

if TYPE_CHECKING:
    from .experiment import Experiment

STATISTICS_IMAGES = 256
"""Images whose maps tell a trunk's mean and spread, where no views are cached."""


def check_network(experiment: Experiment) -> None:
    """Refuse networks that do not exist, and settings of a trunk that mean nothing."""
    if experiment.encoder == LITE0:
        raise DuetError(f"{LITE0} is a pretrained trunk, not an encoder: give --trunk {LITE0}")
    check_encoder(experiment.encoder)
    if experiment.trunk is not None:
        if experiment.trunk in BACKBONES:
            raise DuetError(
                f"{experiment.trunk} is an encoder, not a pretrained trunk: give --encoder {experiment.trunk}"
            )
        check_trunk_name(experiment.trunk)
    if not 0 <= experiment.dropout < 1:
        raise DuetError(f"dropout must lie in [0, 1); it is {experiment.dropout:g}")
    if experiment.cached_views < 0 or experiment.cached_views == 1:
        raise DuetError(f"cached_views must be 2 or more, or 0 for none; it is {experiment.cached_views}")
    if experiment.trunk is None:
        if experiment.trunk_layers or experiment.unfreeze or experiment.trunk_size:
            raise DuetError("trunk_layers, trunk_size and unfreeze are of a trunk; name one, such as --trunk lite0")
    elif experiment.channels != 3:
        raise DuetError("a trunk takes images with 3 channels, grey ones too; leave channels at 3")


def build_network(experiment: Experiment, image_size: tuple[int, int] = (32, 32)) -> Backbone:
    """The backbone with fresh weights, or a fresh neck on the trunk."""
    e = experiment
    if e.trunk is None:
        return build_backbone(e.encoder, channels=e.channels, dim=e.dim, image_size=image_size)
    wanted = OnTrunk(e.trunk, e.trunk_layers, e.grid, e.neck, e.neck_width, e.dropout, e.unfreeze, resize=e.trunk_size)
    return build_on_trunk(wanted, dim=e.dim, image_size=image_size)


def views_of_run(
    experiment: Experiment, method: Method, images: Images, stack: Stack, device: str
) -> CachedViews | None:
    """The trunk's maps of some views of every image; None where there is no trunk, or it sees new views every step."""
    trunk = method.backbone.trunk
    if trunk is None:
        return None
    if find_device(device).type == "cpu":
        trunk.warm((images.shape[1], images.shape[2]))  # a run that goes on must not take another way
    if not trunk.frozen or not experiment.cached_views:
        return None
    if method.draws_own_views:
        raise DuetError(f"{method.name} draws views of its own, which cannot be cached: give --cached-views 0")
    trunk.to(find_device(device))
    try:
        return cache_views(trunk, images, stack, experiment.cached_views, experiment.seed)
    finally:
        trunk.to("cpu")  # Lightning brings the whole method where it trains


def input_statistics(backbone: Backbone, images: Images, seed: int) -> tuple[Tensor, Tensor]:
    """Mean and spread (C,), (C,) of what a backbone standardises: pixels, or a trunk's maps."""
    if backbone.trunk is None or isinstance(images, CachedViews):
        return images.statistics()
    with torch.no_grad():
        return map_statistics(backbone.trunk(as_float(images.sample(STATISTICS_IMAGES, seed))))


def describe_trunk(backbone: Backbone, cached: int) -> dict[str, str]:
    """The trunk and the neck in words, for a model's recipe; nothing where there is none."""
    if backbone.trunk is None or backbone.recipe is None:
        return {}
    trunk, told = backbone.trunk, backbone.recipe["trunk"]
    read = f"{', '.join(trunk.layers)} on a grid of {trunk.side} x {trunk.side}"
    read += "" if trunk.resize is None else f", of images resized to {trunk.resize} x {trunk.resize}"
    trained = f", {', '.join(told['unfreeze'])} trained" if told["unfreeze"] else ", frozen"
    views = f"{cached} of every image, cached" if cached and trunk.frozen else "new in every step"
    return {
        "trunk": f"{trunk.name} ({trunk.checksum[:16]}){trained}, read at {read}",
        "neck": f"{told['neck']}, {told['width']} wide, dropout {told['dropout']:g}",
        "views through the trunk": views,
    }
