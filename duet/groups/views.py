"""From images to augmented views, in batch, with one resampling, and with the g of every tracked group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .. import allocator
from ..error import DuetError
from ..pixels import as_float, check_shape, check_values
from .affine import Affine, Warp, fuse, resample
from .blur import Blur
from .geometric import Flip, Geometric, Scale
from .group import GROUPS, Group, find_group


@dataclass(frozen=True)
class Stage:
    """One transformation of a stack. With `probability` an element is drawn; else the image is left as it is."""

    group: Group
    probability: float = 1.0
    tracked: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.group, Group):
            raise TypeError(f"a Stage takes a Group, not {self.group!r}; GROUPS[name] has the registered ones")
        if not 0 <= self.probability <= 1:
            raise DuetError(f"the probability of {self.group.name} must lie in [0, 1]; it is {self.probability}")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage itself, so that a Stage and a Jitter can be walked alike."""
        return (self,)


@dataclass(frozen=True)
class Jitter:
    """Stages that share one coin and come in an order drawn once a batch, as in ColorJitter."""

    stages: tuple[Stage, ...]
    probability: float = 0.8

    def __post_init__(self) -> None:
        if any(isinstance(stage.group, Geometric) for stage in self.stages):
            raise DuetError("Jitter is for stages that leave pixels in their place")


@dataclass(frozen=True)
class View:
    """Augmented images (B,C,H,W), and the g (B,) of every tracked group, by name."""

    images: Tensor
    g: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawn:
    """Everything random about one view of a batch: given this, `Stack.render` is a function. Slices like a batch."""

    g: tuple[Tensor, ...]  # (B,) for every stage, in the stack's order
    warps: tuple[Warp, ...]  # of every run of geometric stages
    orders: tuple[tuple[int, ...], ...]  # of every Jitter
    seed: int  # for nuisance that a group draws while it is applied; that of the first sample, the next has the next
    names: tuple[str, ...]  # of the tracked group of a stage, or ""

    def __len__(self) -> int:
        return len(self.g[0]) if self.g else 0

    def __getitem__(self, rows: slice) -> Drawn:
        return replace(
            self,
            g=tuple(g[rows] for g in self.g),
            warps=tuple(warp[rows] for warp in self.warps),
            seed=self.seed + rows.indices(len(self))[0],
        )

    def to(self, device: torch.device) -> Drawn:
        """The same draw on another device."""
        return replace(self, g=tuple(g.to(device) for g in self.g), warps=tuple(w.to(device) for w in self.warps))

    @property
    def tracked(self) -> dict[str, Tensor]:
        """The g of every tracked group."""
        return {name: g for name, g in zip(self.names, self.g, strict=True) if name}


class Stack:
    """A sequence of stages: `stack(images, generator)` makes one view of a batch.

    Neighbouring geometric stages are composed and the image is resampled once. `size` resizes the images before the
    first stage, still within that one resampling. The order inside a Jitter is drawn once a batch; all else once a
    sample.
    """

    def __init__(self, stages: Sequence[Stage | Jitter], size: int | tuple[int, int] | None = None) -> None:
        self.stages = tuple(stages)
        self.size = (size, size) if isinstance(size, int) else size
        self._flat = tuple(stage for step in self.stages for stage in step.stages)
        names = [stage.group.name for stage in self._flat if stage.tracked]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DuetError(f"{', '.join(twice)} is tracked twice in one stack; track one of its stages")
        self.tracked: tuple[Group, ...] = tuple(stage.group for stage in self._flat if stage.tracked)

    @classmethod
    def rrc_plus(
        cls,
        name: str | Group | Sequence[str | Group],
        area: tuple[float, float] = (0.2, 1.0),
        size: int | tuple[int, int] | None = None,
    ) -> Stack:
        """The paper's RRC+1: a random crop and the named group (or groups), tracked, as likely as in the full stack."""
        groups = _in_order(name, area)
        own = next((group for group in groups if group.crops), None)
        crop = Stage(own or Scale(area), tracked=own is not None)
        return cls([crop, *(Stage(g, g.probability, tracked=True) for g in groups if g is not own)], size)

    @classmethod
    def mild(
        cls,
        name: str | Group | Sequence[str | Group],
        area: tuple[float, float] = (0.6, 1.0),
        size: int | tuple[int, int] | None = None,
    ) -> Stack:
        """For photos: brightness, contrast and saturation for half of them, a crop, a flip, then the named groups.

        Colours come first: a contrast after a disc would lighten what is hidden.
        """
        groups = _in_order(name, area)
        tracked = {group.name: Stage(group, group.probability, tracked=True) for group in groups}
        usual = [Stage(GROUPS[colour]) for colour in ("brightness", "contrast", "saturation") if colour not in tracked]
        crop = next((stage for stage in tracked.values() if stage.group.crops), Stage(Scale(area)))
        jitter = [Jitter(tuple(usual), 0.5)] if usual else []
        flip = [] if "hflip" in tracked else [Stage(GROUPS["hflip"])]
        return cls([*jitter, crop, *flip, *(stage for stage in tracked.values() if stage is not crop)], size)

    @classmethod
    def full(
        cls,
        tracked: str | Group | Sequence[str | Group] = (),
        area: tuple[float, float] = (0.2, 1.0),
        size: int | tuple[int, int] | None = None,
        blur: float = 0.5,
    ) -> Stack:
        """The full SimCLR stack of the paper's appendix, with every tracked group added that is not part of it.

        `blur` is the probability of its blur.
        """
        wanted = {group.name: group for group in _in_order(tracked, area)}

        def usual(group: Group, probability: float = 1.0) -> Stage:
            own = wanted.pop(group.name, None)
            return Stage(own or group, probability, tracked=own is not None)

        crop, flip = usual(Scale(area)), usual(GROUPS["hflip"])
        jitter = Jitter(tuple(usual(GROUPS[name]) for name in ("brightness", "contrast", "saturation", "hue")), 0.8)
        gray = usual(GROUPS["grayscale"], GROUPS["grayscale"].probability)
        geometric = [Stage(group, tracked=True) for group in wanted.values() if isinstance(group, Geometric)]
        others = [Stage(group, tracked=True) for group in wanted.values() if not isinstance(group, Geometric)]
        blurred = [Stage(Blur(), blur)] if blur else []
        return cls([crop, flip, *geometric, jitter, gray, *others, *blurred], size)

    def without(self, *names: str, size: int | tuple[int, int] | None = None) -> Stack:
        """The same stack with no stage of the named groups, and another size if given."""

        def rest(step: Stage | Jitter) -> Iterator[Stage | Jitter]:
            kept = tuple(stage for stage in step.stages if stage.group.name not in names)
            if kept:
                yield replace(step, stages=kept) if isinstance(step, Jitter) else step

        return Stack([kept for step in self.stages for kept in rest(step)], size or self.size)

    @property
    def shuffles(self) -> bool:
        """Whether some stages come in an order that is drawn once a call."""
        return any(isinstance(step, Jitter) for step in self.stages)

    def __call__(self, images: Tensor, generator: torch.Generator) -> View:
        """One view of a batch: (B,C,H,W) float in [0,1] or uint8 -> View with (B,C,*size) float in [0,1]."""
        drawn = self.draw(len(images), self._output(images), generator).to(images.device)
        return self.render(images, drawn)

    def draw(self, n: int, size: tuple[int, int], generator: torch.Generator) -> Drawn:
        """Draw all that is random about a view of n images of `size` = (H, W)."""
        elements: list[Tensor] = []
        warps: list[Warp] = []
        run: list[Affine] = []  # neighbouring geometric stages, still to be composed
        orders: list[tuple[int, ...]] = []
        for step in self.stages:
            if run and not _is_geometric(step):
                warps.append(fuse(run))
                run = []
            coin = None
            if step.probability < 1:
                coin = torch.rand(n, generator=generator, device=generator.device) < step.probability
            for stage in step.stages:
                g = stage.group.sample(n, generator)
                g = g if coin is None else torch.where(coin, g, stage.group.identity)
                elements.append(g)
                if isinstance(stage.group, Geometric):
                    affine = stage.group.affine(g, size, generator)
                    if coin is not None:
                        still = stage.group.affine(torch.full_like(g, stage.group.identity), size)
                        affine = replace(affine, matrix=torch.where(coin.view(-1, 1, 1), affine.matrix, still.matrix))
                    run.append(affine)
            if isinstance(step, Jitter):
                permutation = torch.randperm(len(step.stages), generator=generator, device=generator.device)
                orders.append(tuple(int(i) for i in permutation))
        warps += [fuse(run)] if run else []
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        names = tuple(stage.group.name if stage.tracked else "" for stage in self._flat)
        return Drawn(tuple(elements), tuple(warps), tuple(orders), seed, names)

    def render(self, images: Tensor, drawn: Drawn) -> View:
        """Carry out a draw: the same draw gives the same view, and a batch equals its samples one by one."""
        size = self._output(images)
        check_values(images)
        for stage in self._flat:
            stage.group.check_channels(images)
        if images.requires_grad and torch.is_grad_enabled():
            return View(self._render(images, drawn, size, overwrite=False), drawn.tracked)
        rows = _rows_at_a_time(images)
        if rows >= len(images):
            return View(self._render(as_float(images), drawn, size, overwrite=True), drawn.tracked)
        dtype = images.dtype if images.is_floating_point() else torch.get_default_dtype()
        out = torch.empty(len(images), images.shape[1], *size, dtype=dtype, device=images.device)
        for start in range(0, len(images), rows):
            part = slice(start, start + rows)
            out[part] = self._render(as_float(images[part]), drawn[part], size, overwrite=True)
        return View(out, drawn.tracked)

    def _render(self, images: Tensor, drawn: Drawn, size: tuple[int, int], overwrite: bool) -> Tensor:
        mine = False  # whether `images` is our own copy, free to be overwritten
        if self.size is not None and not (self.stages and _is_geometric(self.stages[0])):
            images, mine = resample(images, _still(images), size), True
        elements, warps, orders = iter(drawn.g), iter(drawn.warps), iter(drawn.orders)
        warped = False  # whether the present run of geometric stages is done
        for number, step in enumerate(self.stages):
            here = [next(elements) for _ in step.stages]
            if _is_geometric(step):
                if not warped:
                    images, mine, warped = resample(images, next(warps), size), True, True
                continue
            warped = False
            for i in next(orders) if isinstance(step, Jitter) else (0,):
                if overwrite and not mine:
                    images, mine = images.clone(), True
                # Far apart for neighbouring stages, one apart for neighbouring samples.
                seed = drawn.seed + (64 * number + i) * 2**32
                images = _change(images, step.stages[i].group, here[i], seed, overwrite)
        return images

    def _output(self, images: Tensor) -> tuple[int, int]:
        size = check_shape(images)
        return self.size or size

    def __repr__(self) -> str:
        lines = [f"  {step!r}," for step in self.stages]
        return "\n".join(["Stack([", *lines, f"], size={self.size})"])


def _in_order(names: str | Group | Sequence[str | Group], area: tuple[float, float]) -> list[Group]:
    """The groups of those names, in the order in which a stack applies them; a crop that is registered has `area`."""
    found = [find_group(name) for name in ([names] if isinstance(names, str | Group) else names)]
    groups = [group.configured(area=area) if group is GROUPS.get(group.name) else group for group in found]
    # A flip after a rotation would turn the angle's sign: flips come first, then other geometric groups, then colours.
    return sorted(groups, key=lambda g: 0 if isinstance(g, Flip) else 1 if isinstance(g, Geometric) else 2)


def _change(images: Tensor, group: Group, g: Tensor, seed: int, overwrite: bool) -> Tensor:
    """Apply one pixel stage; samples that keep the identity are not touched, whatever shares the batch with them."""
    if not overwrite:
        return _apply(group, images, g, seed, torch.arange(len(g)), overwrite)
    if images.device.type == "cpu":
        chosen = (g != group.identity).nonzero().squeeze(1)
        if len(chosen) == 0:
            return images
        if len(chosen) < len(g):
            return images.index_copy_(
                0, chosen, _apply(group, images.index_select(0, chosen), g[chosen], seed, chosen, overwrite)
            )
    return _apply(group, images, g, seed, torch.arange(len(g)), overwrite)


def _apply(group: Group, images: Tensor, g: Tensor, seed: int, places: Tensor, overwrite: bool) -> Tensor:
    """Transform all samples at once; one by one, each by a seed of its own, where the group draws nuisance.

    Drawn together, a sample's nuisance would depend on how the batch was cut.
    """
    if type(group).transform_ is not Group.transform_:  # such a group draws nothing
        return (group.transform_ if overwrite else group.transform)(images, g)
    generator = torch.Generator(_home(images)).manual_seed(seed)
    before = generator.get_state()
    changed = group.transform(images, g, generator)
    if torch.equal(generator.get_state(), before):
        return changed
    each = [
        group.transform(images[i : i + 1], g[i : i + 1], generator.manual_seed(seed + place))
        for i, place in enumerate(places.tolist())
    ]
    return torch.cat(each)


def _home(images: Tensor) -> torch.device:
    """Where the nuisance of these images is drawn."""
    return torch.device("cpu") if images.is_meta else images.device


def _rows_at_a_time(images: Tensor) -> int:
    """On a CPU a few samples at a time, in equal parts, so that temporaries are used again; elsewhere all at once."""
    if images.device.type != "cpu" or not len(images):
        return max(1, len(images))
    most = max(1, (3 * 2**19 if allocator.kept else 2**19) // max(1, images[0].numel()))
    parts = -(-len(images) // most)
    return -(-len(images) // parts)


def _still(images: Tensor) -> Warp:
    return Warp(torch.eye(2, 3, device=images.device).expand(len(images), 2, 3))


def _is_geometric(step: Stage | Jitter) -> bool:
    return isinstance(step, Stage) and isinstance(step.group, Geometric)
