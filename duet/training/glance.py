"""A glance at images that are not trained on: how well they are read, once in a while, for a progress line."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from ..data import Images
from ..error import DuetError
from ..groups import Group
from ..methods import Method
from ..model.confidence import is_right
from ..networks.mode import in_evaluation_mode
from ..pixels import as_float
from ..representation import Axis, recover
from .loop import Loop

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

    def __call__(self, loop: Loop) -> list[str]:
        """What is known, in words; a new glance where there is time for one."""
        passed = time.monotonic() - self.began
        if passed >= PATIENCE and self.spent + self.cost <= SHARE * passed:
            self._look(loop)
        return self.words

    def _look(self, loop: Loop) -> None:
        start, trying = time.monotonic(), not self.spent
        module, method = loop.module, loop.module.method
        kept = torch.random.fork_rng(devices=[])
        with kept, torch.no_grad(), in_evaluation_mode(module), loop.fabric.autocast():
            if trying or not self.whole:
                self.views, self.whole = self._draw(loop, TRIED if trying else IMAGES), not trying
            # Not by calling it: a compiled one would be compiled again, for evaluation.
            features = [method.backbone.forward(inputs) for inputs, _ in self.views]
        read = zip(self.axes, features, self.views, strict=False)  # none where no image can be read
        words = [in_words(group, recover(z.float(), method.layout, axis).g, g) for (axis, group), z, (_, g) in read]
        took = time.monotonic() - start
        self.spent += took
        self.cost = took * IMAGES / TRIED if trying else took
        self.words = [] if trying else words

    def _draw(self, loop: Loop, count: int) -> list[tuple[Tensor, Tensor]]:
        """For every axis images under random elements, or what a frozen trunk makes of them, and these elements."""
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(self.aside), generator=generator)[:count].tolist()
        pixels = [image for image in map(self._read, order) if image is not None]
        trunk, found = loop.module.method.backbone.trunk, []
        device, dtype = loop.fabric.device, next(loop.module.parameters()).dtype
        for _, group in self.axes if pixels else ():
            g = group.sample(len(pixels), generator)
            images = group.apply(as_float(torch.stack(pixels)), g, generator).to(device)
            inputs = images if trunk is None or not trunk.frozen else trunk(images)
            found.append((inputs.to(dtype), g.to(device)))
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
