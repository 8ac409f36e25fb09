"""What the layers inside a network know: their outputs, pooled and as a grid, all from one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..error import DuetError, did_you_mean
from ..groups import Group
from ..model import OrbitViews
from ..networks.trunk import as_map
from ..representation import Flat
from .context import Context, Labelled, Orbit
from .ready import ReadyContext
from .subject import Outsider, Subject

GRID = 4
"""Cells along a side of a grid; fewer where the layer has fewer, or so many channels that WIDEST would be passed."""
WIDEST = 2048  # numbers of a grid: beyond, the spectrum takes minutes a layer
STEPS = 8  # elements at which test images are seen
IMAGES = 2000  # training images on which spectra are found
BYTES = 2**30  # of features held at a time; layers that do not fit wait for another pass


@dataclass(frozen=True)
class Reading:
    """One way to read a layer: its mean over places, or a grid of means."""

    layer: str
    kind: str  # "pooled" or "grid"
    side: int  # of the grid
    width: int  # numbers an image

    @property
    def title(self) -> str:
        """As a row names it."""
        return f"{self.layer} ({self.kind})"

    def read(self, output: Tensor) -> Tensor:
        """A layer's output -> (B, width)."""
        if output.ndim == 2:
            return output
        return F.adaptive_avg_pool2d(as_map(output), self.side).flatten(1)


class Tap:
    """Keeps what layers put out while a subject computes its features."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        parts = dict(module.named_modules())
        self._module, self._parts = module, {name: parts[name] for name in names}

    def outputs(self, subject: Subject, images: Tensor, readings: Sequence[Reading]) -> Tensor:
        """Every reading of these images side by side, in one forward pass: (N,C,H,W) -> (N, all widths)."""
        batches: list[dict[Reading, Tensor]] = []

        def keep(name: str, output: Tensor) -> None:
            for reading in readings:
                if reading.layer == name:
                    batches[-1][reading] = reading.read(output).float().clone()

        with self._listening(keep, lambda: batches.append({})):
            subject.features(images)
        found = [torch.cat([batch[reading] for reading in readings], 1) for batch in batches]
        # A model may look at turned copies too: in every batch the untouched images come first.
        copies = sum(map(len, found)) // max(1, len(images))
        return torch.cat([part[: len(part) // copies] for part in found])

    def readings(self, subject: Subject, images: Tensor) -> list[Reading]:
        """Both ways to read every layer that takes part, in the order in which they are computed."""
        seen: dict[str, Tensor] = {}
        with self._listening(seen.__setitem__, lambda: None):
            subject.features(images[:2])
        silent = [name for name in self._parts if name not in seen]
        if silent:
            raise DuetError(f"the layer {silent[0]} takes no part in computing the features")
        return [reading for name, output in seen.items() for reading in _ways(name, output)]

    @contextmanager
    def _listening(self, keep: Callable[[str, Tensor], None], begin: Callable[[], None]) -> Iterator[None]:
        """Call `begin` before every batch, and `keep` with what a layer puts out; of several times the last counts."""
        hooks = [self._module.register_forward_pre_hook(lambda *_: begin())]
        for name, part in self._parts.items():
            hooks.append(part.register_forward_hook(lambda _, __, output, name=name: keep(name, _tensor(output, name))))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def find_layers(module: nn.Module, wanted: Sequence[str]) -> list[str]:
    """The names of a module's layers that are asked for, each by its name or by a pattern such as blocks.*."""
    known = [name for name, _ in module.named_modules() if name]
    return [name for name in known if any(_matches(name, one) for one in wanted)]


def check_layers(modules: Sequence[nn.Module], wanted: Sequence[str]) -> None:
    """Refuse a name that no encoder has a layer for."""
    known = list(dict.fromkeys(name for module in modules for name, _ in module.named_modules() if name))
    for name in wanted:
        if not known:
            raise DuetError(f"no layer {name!r}: none of the encoders is a module that can be looked into")
        if not any(_matches(one, name) for one in known):
            hint = did_you_mean(name, known) or f"; the first are {', '.join(known[:3])}"
            raise DuetError(f"no layer {name!r}{hint}")


def layer_contexts(
    context: Context, module: nn.Module, names: Sequence[str], groups: Sequence[Group]
) -> Iterator[tuple[Reading, dict[str, ReadyContext]]]:
    """Every reading of every layer with a context for each group; one forward pass serves as many as memory allows."""
    tap = Tap(module, names)
    readings = tap.readings(context.subject, context.images)
    sizes = replace(context.sizes, probe=min(context.sizes.probe, IMAGES), sweep=min(context.sizes.sweep, STEPS))
    rows = len(groups) * (sizes.probe * sizes.views + sizes.images * sizes.sweep)
    rows += min(sizes.train or len(context.train), len(context.train)) + min(
        sizes.test or len(context.test), len(context.test)
    )
    for part in split_by_size([reading.width for reading in readings], BYTES // (4 * max(1, rows))):
        yield from _part_contexts(replace(context, sizes=sizes, _cache={}), tap, [readings[i] for i in part], groups)


def split_by_size(widths: Sequence[int], most: int) -> list[list[int]]:
    """Places of widths, in order, in as few parts as sum to at most `most` each; a wide one stands alone."""
    parts: list[list[int]] = [[]]
    for place, width in enumerate(widths):
        if parts[-1] and sum(widths[i] for i in parts[-1]) + width > most:
            parts.append([])
        parts[-1].append(place)
    return parts


def _part_contexts(
    context: Context, tap: Tap, readings: list[Reading], groups: Sequence[Group]
) -> Iterator[tuple[Reading, dict[str, ReadyContext]]]:
    def all_of(images: Tensor) -> Tensor:
        batches = torch.split(images, 512)
        return torch.cat([tap.outputs(context.subject, batch, readings) for batch in batches])

    known = {group.name: group for group in groups}
    whole = Outsider(all_of, Flat(sum(r.width for r in readings)), known, device=context.device)
    shared = replace(context, subject=whole)
    contexts = {group.name: replace(shared, group=group, groups=(group,)) for group in groups}
    labels = context.train.labels is not None and context.test.labels is not None
    start = 0
    for reading in readings:
        cut = slice(start, start + reading.width)
        start += reading.width
        subject = replace(whole, layout=Flat(reading.width), description={"layer": reading.title})
        labelled = (_cut(shared.train_features, cut), _cut(shared.test_features, cut)) if labels else None
        yield reading, {name: _ready(own, subject, cut, labelled) for name, own in contexts.items()}


def _ready(context: Context, subject: Subject, cut: slice, labelled: tuple[Labelled, Labelled] | None) -> ReadyContext:
    views, orbit = context.views(), context.orbit()
    return ReadyContext(
        subject,
        context.train,
        context.test,
        context.group,
        context.sizes,
        context.seed,
        groups=(context.group,),
        fitting=OrbitViews(views.z[..., cut], views.g),
        testing=Orbit(orbit.group, orbit.g, orbit.z[..., cut], orbit.start),
        labelled=labelled,
    )


def _cut(found: Labelled, cut: slice) -> Labelled:
    return Labelled(found.z[:, cut], found.labels)


def _matches(name: str, pattern: str) -> bool:
    """Whether a layer's name fits a pattern, part by part: blocks.* has blocks.3 and not blocks.3.conv."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _ways(name: str, output: Tensor) -> list[Reading]:
    if output.ndim == 2:
        return [Reading(name, "pooled", 1, output.shape[1])]
    _, channels, height, width = as_map(output).shape
    sides = [side for side in range(2, GRID + 1) if side <= min(height, width) and side * side * channels <= WIDEST]
    grids = [Reading(name, "grid", sides[-1], channels * sides[-1] ** 2)] if sides else []
    return [Reading(name, "pooled", 1, channels), *grids]


def _tensor(output: Any, name: str) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim not in (2, 3, 4):
        got = tuple(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise DuetError(f"the layer {name} puts out {got}, not features (B, D), tokens (B, T, C) or maps (B, C, H, W)")
    return output
