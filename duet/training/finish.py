"""What a training ends with: the encoder, with an action for every group and what it knows of its own confidence."""

from __future__ import annotations

import logging

import torch

from ..data import Images
from ..groups import Group, Stack
from ..methods import Method
from ..model import Encoder, fit_action, has_spectrum, orbit_views, spectrum_of
from ..model.turns import turning_axis
from ..networks.mode import estimate_statistics
from ..pixels import as_float
from ..progress import with_bar
from .calibration import Kept, calibrate
from .experiment import Experiment
from .module import Pretraining
from .provenance import provenance_of
from .step import step_seed

log = logging.getLogger(__name__)

STATISTICS_IMAGES = 4096
"""Over which batch statistics are averaged anew."""

MOST_ACTED = 2**12
"""Features that an action is fitted to: its memory grows with their square."""


def finish(
    module: Pretraining,
    experiment: Experiment,
    groups: tuple[Group, ...],
    kept: Kept,
    device: torch.device | None = None,
) -> Encoder:
    """The encoder with a fitted action for every group and its confidence, fitted where it was trained."""
    method, images = module.method, kept.trained
    settle_statistics(module, images, experiment, device)
    encoder = Encoder(
        method.backbone,
        method.layout,
        _in_named_order(groups, experiment),
        getattr(method, "reference", "absolute"),
        image_size=(images.shape[1], images.shape[2]),
        classes=images.classes,
        head=module.head,
        provenance=provenance_of(experiment, method),
        turns=turns_of(experiment, method, groups, images),
    ).to(device)
    if experiment.action_pairs and encoder.layout.dim > MOST_ACTED:
        log.warning("no action is fitted: %d features are more than %d", encoder.layout.dim, MOST_ACTED)
    elif experiment.action_pairs:
        pairs, seed = experiment.action_pairs, experiment.seed
        pixels = images.sample(pairs, seed).to(encoder.device)
        for group in encoder.groups.values():
            action = fit_action(encoder.features, pixels, group, pairs, seed, track=with_bar)
            encoder.add_action(group.name, action.float())  # fitted in double, kept as the features are
            if has_spectrum(group):
                views = orbit_views(encoder.features, pixels[: pairs // 4], group, 4, seed, track=with_bar)
                encoder.add_action(group.name, spectrum_of(views, group).float())
    calibrate(encoder, kept, experiment.seed)
    return encoder


def settle_statistics(
    module: Pretraining, images: Images, experiment: Experiment, device: torch.device | None = None
) -> None:
    """Average the batch statistics anew over views as large as the images, where the last views were of another size.

    Smaller views have other statistics, and the encoder is used on whole images.
    """
    side, stack = (images.shape[1], images.shape[2]), module.stack
    last = None if module.sizes is None else module.sizes.sides[-1]
    if last is None or (last, last) == side or not isinstance(stack, Stack):
        return
    method = module.method.to(device)
    generator = torch.Generator().manual_seed(step_seed(experiment.seed, STATISTICS_IMAGES, 0))
    sample = images.sample(min(STATISTICS_IMAGES, len(images)), experiment.seed)
    full = stack.without(size=side)
    batches = (
        method.draw_views(as_float(part.to(device)), full, generator).images for part in torch.split(sample, 256)
    )
    estimate_statistics(method.backbone, batches)


def turns_of(experiment: Experiment, method: Method, groups: tuple[Group, ...], images: Images) -> int:
    """How many turned copies the model will look at, 1 without a table; refused before anything is trained."""
    turns = experiment.turns if method.layout.axes else 1
    named = {group.name: group for group in groups or experiment.groups}
    turning_axis(turns, method.layout.axes, named, (images.shape[1], images.shape[2]))
    return turns


def _in_named_order(groups: tuple[Group, ...], experiment: Experiment) -> list[Group]:
    """The tracked groups, first those that the experiment names, as it names them: a stack has an order of its own."""
    places = {name: place for place, name in enumerate(experiment.group)}
    return sorted(groups or experiment.groups, key=lambda group: places.get(group.name, len(places)))
