"""A glance at images that are not trained on: how well they are read, once in a while, for a progress line."""

from __future__ import annotations

import time

import lightning as L
import torch
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor

from ..data import Images
from ..error import DuetError
from ..groups import Group
from ..methods import Method
from ..model.confidence import is_right
from ..networks.mode import in_evaluation_mode
from ..pixels import as_float
from ..representation import Axis, recover
from .module import Pretraining

IMAGES = 128
"""Held-out images that are looked at."""
TRIED = 32
"""Images of the first glance: it tells what one of all would cost."""
PATIENCE = 3.0
"""Seconds before the first glance."""
SHARE = 0.008
"""Of the time of a run that glances may take."""


def glance_at(aside: Images, groups: tuple[Group, ...], method: Method, seed: int) -> Glance | None:
    """A glance at some of these images; None where a reading has no truth: without a table, or with a relative one."""
    named = {group.name: group for group in groups}
    absolute = getattr(method, "reference", "absolute") == "absolute" and getattr(method, "weight", 1.0) != 0
    axes = [axis for axis in method.layout.axes if axis.readable and axis.name in named] if absolute else []
    return Glance(aside, [(axis, named[axis.name]) for axis in axes], seed) if axes else None


class Glance:
    """Reads a few images under elements that are drawn once, by the network as it is, and says how far off it is.

    The training does not notice: weights, statistics, modes and random streams stay as they are.
    """

    def __init__(self, aside: Images, axes: list[tuple[Axis, Group]], seed: int) -> None:
        self.aside, self.axes, self.seed = aside, axes, seed
        self.begin()

    def begin(self) -> None:
        """Time runs from now."""
        self.began, self.spent, self.cost = time.monotonic(), 0.0, 0.0
        self.words: list[str] = []
        self.views: list[tuple[Tensor, Tensor]] = []  # for every axis what the network takes, and g
        self.whole = False  # whether these are of all the images

    def __call__(self, trainer: L.Trainer, module: Pretraining) -> list[str]:
        """What is known, in words; a new glance where there is time for one."""
        passed = time.monotonic() - self.began
        if passed >= PATIENCE and self.spent + self.cost <= SHARE * passed:
            self._look(trainer, module)
        return self.words

    def _look(self, trainer: L.Trainer, module: Pretraining) -> None:
        start, trying = time.monotonic(), not self.spent
        precision, method = trainer.precision_plugin, module.method
        with isolate_rng(), torch.no_grad(), in_evaluation_mode(module), precision.forward_context():
            if trying or not self.whole:
                self.views, self.whole = self._draw(module, TRIED if trying else IMAGES), not trying
            # Not by calling it: a compiled one would be compiled again, for evaluation.
            features = [method.backbone.forward(precision.convert_input(inputs)) for inputs, _ in self.views]
        read = zip(self.axes, features, self.views, strict=False)  # none where no image can be read
        words = [in_words(group, recover(z.float(), method.layout, axis).g, g) for (axis, group), z, (_, g) in read]
        took = time.monotonic() - start
        self.spent += took
        self.cost = took * IMAGES / TRIED if trying else took
        self.words = [] if trying else words

    def _draw(self, module: Pretraining, count: int) -> list[tuple[Tensor, Tensor]]:
        """For every axis images under random elements, or what a frozen trunk makes of them, and these elements."""
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(self.aside), generator=generator)[:count].tolist()
        pixels = [image for image in map(self._read, order) if image is not None]
        trunk, found = module.method.backbone.trunk, []
        for _, group in self.axes if pixels else ():
            g = group.sample(len(pixels), generator)
            images = group.apply(as_float(torch.stack(pixels)), g, generator).to(module.device)
            found.append((images if trunk is None or not trunk.frozen else trunk(images), g.to(module.device)))
        return found

    def _read(self, row: int) -> Tensor | None:
        """An image; None where it cannot be read, which is for the training to note."""
        try:
            return self.aside[row]
        except DuetError:
            return None


def in_words(group: Group, found: Tensor, truth: Tensor) -> str:
    """How far elements (n,) are off: the share that is right of a finite group's, else the median error in its unit."""
    called = f"held-out {group.title or group.name}"
    if group.elements is not None:
        return f"{called} {float(is_right(found, truth.to(found), group).double().mean()):.0%} right"
    low, high = group.span
    error = float(group.domain.distance(found, truth.to(found)).median())
    return f"{called} error {group.write(abs(high - low) * error)}"
