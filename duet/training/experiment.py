"""The configuration of a run, and the one place where its strings become objects."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
import yaml

from ..data import Images, open_images
from ..error import DuetError, did_you_mean, first_line, shown
from ..file import write_text
from ..groups import Group, Stack, find_group
from ..methods import Method, Parts, find_method
from ..model.turns import turning_axis
from ..networks import Backbone, Projector
from ..objectives import OBJECTIVES, find_objective
from ..plugin import home_of, is_spec, require_plugins, trusted
from ..representation import Axis, Concatenated, Flat, Gaussian, Joint, Layout, Table, Target, VonMises
from .adoption import adopt
from .limit import check_limits
from .network import build_network, check_network
from .recipe import merge, preset, read_yaml
from .typed import choices, typed
from .view_size import ViewSizes

LEAST_PAIRS = 16
"""Of an action: a spectrum is fitted to a quarter as many images, and needs four."""
LOOP = ("views",)
"""Keys of the training loop: a method's option of the same name is its own."""
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true", "ddp_find_unused_parameters_false")
"""Lightning has more; these average gradients over processes, which is what the joined batch needs."""


def option(default: Any, meaning: str) -> Any:
    """A field with its default and the sentence that `--help` shows."""
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's result. The same Experiment gives the same weights on one machine."""

    method: str = option("duet", "what is trained; duet with --weight 0 is the ablation")
    group: tuple[str, ...] = option(("rot360",), "the transformation, or several, that the features should keep")
    data: str = option("digits", "a set's name, an image folder, a parquet file or glob")

    weight: float | None = option(None, "of the group loss (lambda); default the method's own: duet 10, essl 0.4")
    reference: Literal["absolute", "relative"] = option("absolute", "match g itself, or the difference of two views")
    layout: Literal["table", "joint", "concatenated"] | None = option(
        None, "how features are arranged; default table, for several groups concatenated"
    )
    bins: int = option(8, "columns of the table for each group (G)")
    sigma: float = option(0.2, "spread of the target, in units of g")
    target: Literal["gaussian", "vonmises"] | None = option(
        None, "default: von Mises on circles, Gaussian on intervals"
    )
    contrast: str = option("nt_xent", "the objective between the content of two views")
    temperature: float = option(0.1, "of the contrast")
    options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "the method's own settings, as --option key=value"}
    )

    views: int = option(2, "views of an image that are contrasted with each other")
    view_size: tuple[str, ...] = option(
        (), "side of the views as the training goes on, such as 16@0.4 24@0.75 32; default that of the images"
    )
    stack: Literal["rrc", "mild", "full"] = option(
        "rrc", "augmentations: a crop and the group, those with mild colours and flips, or the full SimCLR stack"
    )
    blur: float = option(0.5, "full stack: probability of its blur")
    area: tuple[float, float] = option((0.2, 1.0), "smallest and largest area of a crop")
    corners: Literal["zero", "circle"] = option("zero", "rot360: black corners, or every view seen through a disc")

    encoder: str = option("resnet32", "backbone: small, resnet32, resnet18, ..., timm:NAME, or your own module:build")
    dim: int | None = option(None, "features; default the backbone's own")
    trunk: str | None = option(None, "a frozen pretrained network under a trained neck: lite0, timm:NAME, module:build")
    trunk_layers: tuple[str, ...] = option((), "the layers of the trunk that are read; default those that hold pose")
    trunk_size: int | None = option(None, "side that images are resized to for the trunk; default as they are")
    grid: int | None = option(None, "side of the grid that a layer of the trunk is pooled to; default the neck's own")
    neck: Literal["map", "grid"] = option("map", "on the trunk: convolutions over a map of 8 x 8, or a grid of 4 x 4")
    neck_width: int = option(512, "width of the neck's layers")
    dropout: float = option(0.3, "in the neck")
    cached_views: int = option(8, "views of every image that go through the trunk, once; 0: new ones in every step")
    unfreeze: tuple[str, ...] = option((), "layers of the trunk that are trained too; nothing is cached then")
    projector: tuple[int, ...] = option((2048, 2048, 128), "widths of the projector's layers")

    epochs: int = option(800, "passes over the images")
    batch_size: int = option(2048, "images in a step, over all processes; each gives two views")
    accumulate: int = option(1, "batches whose gradients are added up before a step")
    exact: bool = option(False, "the loss sees all batches that are accumulated at once, the memory one of them")
    optimizer: Literal["adam", "adamw", "sgd"] = option("adam", "optimiser; sgd has Nesterov momentum, betas[0]")
    lr: float = option(1e-4, "highest learning rate")
    betas: tuple[float, float] = option((0.9, 0.95), "the optimiser's averages")
    weight_decay: float = option(1e-4, "of the optimiser")
    decay_norms: bool = option(True, "weight decay also on biases and normalisation layers")
    warmup_epochs: float = option(10, "epochs in which the learning rate rises; then it falls as a cosine")
    extended: tuple[int, ...] = option((), "the epochs it had before --resume gave it a longer schedule")

    split: str = option(
        "train",
        "train: a fifth of every class is held out where the set has no test part; all: nothing is; or a part's name",
    )
    subset: int | None = option(None, "train on this many images only, class-balanced")
    image_size: int | None = option(None, "side of the square images; default their own")
    channels: Literal[1, 3] = option(3, "1 for grey images")
    normalize: bool = option(True, "subtract the data's mean and divide by its spread, inside the encoder")
    storage: Literal["auto", "memory", "stream"] = option("auto", "decode all at once, or while training")
    calibrate: bool = option(True, "keep a tenth of the images aside, and learn from it how sure readings are")

    turns: int = option(
        1, "turned copies of an image that the trained model looks at: 4 are quarter turns; a rotation's"
    )
    action_pairs: int = option(12_000, "pairs of transformed images for the fitted action; 0 leaves it out")
    seed: int = option(0, "of everything random")
    precision: Literal["32", "bf16", "16", "64", "auto"] = option(
        "32", "of the arithmetic; bf16 and 16 are mixed; auto is bf16 where the device has it natively, else 32"
    )
    compile: bool = option(False, "compile the backbone")
    devices: int = option(1, "processes on this machine, one a device")
    nodes: int = option(1, "machines")
    strategy: str = option("auto", "how processes work together: auto or ddp")
    sync_batchnorm: bool = option(False, "batch statistics over all processes")
    plugins: tuple[str, ...] = option((), "modules of your own that the run needs; a file's are never imported by it")

    def __post_init__(self) -> None:
        named: Any = self.group
        if isinstance(named, str):
            object.__setattr__(self, "group", (named,))
        for name, allowed in choices(Experiment).items():
            _one_of(name, getattr(self, name), allowed)
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise DuetError(f"{name} must be above 0; it is {shown(value)}")
        for name in ("weight", "weight_decay", "warmup_epochs", "action_pairs"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise DuetError(f"{name} cannot be negative; it is {shown(value)}")
        if 0 < self.action_pairs < LEAST_PAIRS:
            raise DuetError(f"action_pairs is 0, or {LEAST_PAIRS} and more; it is {self.action_pairs}")
        check_limits(self)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise DuetError(f"betas must lie in [0, 1); they are {self.betas[0]:g} and {self.betas[1]:g}")
        if not 0 <= self.seed < 2**63:
            raise DuetError(f"seed must lie from 0 to 2^63 - 1; it is {shown(self.seed)}")
        if not self.group or len(set(self.group)) < len(self.group):
            raise DuetError(f"group needs one or more names, each once; it is {' '.join(self.group) or 'empty'}")
        if len(self.projector) < 1 or min(self.projector) < 1:
            raise DuetError(f"projector needs one width or more; it is {self.projector}")
        if self.warmup_epochs > self.epochs:
            raise DuetError(
                f"warmup_epochs ({self.warmup_epochs:g}) is longer than the training ({self.epochs} epochs)"
            )
        if self.batch_size % (self.devices * self.nodes):
            raise DuetError(f"batch_size ({self.batch_size}) must divide by the {self.devices * self.nodes} processes")
        if self.exact and self.accumulate == 1:
            raise DuetError("exact joins the batches that are accumulated; give --accumulate 2 or more with it")
        if self.exact and (self.compile or self.devices * self.nodes > 1):
            other = "compile" if self.compile else "several processes"
            raise DuetError(f"exact runs the network twice, which is not tried with {other}; leave one of them out")
        if self.layout == "table" and len(self.group) > 1:
            raise DuetError("a table has one group; for several use layout concatenated or joint")
        check_network(self)
        if not 0 <= self.blur <= 1:
            raise DuetError(f"blur is a probability, from 0 to 1; it is {shown(self.blur)}")
        if self.views < 2:
            raise DuetError(f"a contrast needs 2 views of an image or more; views is {self.views}")
        if self.view_size and self.trunk is not None:
            raise DuetError("view_size is not for a trunk, which takes images of one size; leave it out")
        ViewSizes.parse(self.view_size)
        _one_of("strategy", self.strategy, STRATEGIES)
        _one_of("contrast", self.contrast, tuple(OBJECTIVES))
        if self.split == "test":
            raise DuetError("split cannot be 'test': what a model is tested on is not trained on")
        method = find_method(self.method)
        method.check(self.groups)
        method_options(self)
        if method.structured:
            for group in self.groups:
                least = build_target(self, group).domain.least_bins
                if self.bins < least:
                    raise DuetError(f"bins of {group.name} must be at least {least}, or g could not be read off them")
            turning_axis(self.turns, _axes(self), {group.name: group for group in self.groups})

    @property
    def groups(self) -> tuple[Group, ...]:
        """The tracked groups with this run's settings; stack, evaluation, action and decoder share them."""
        if "_groups" not in self.__dict__:
            settings = {"area": self.area, "corners": self.corners}
            made = tuple(find_group(name).configured(**settings) for name in self.group)
            object.__setattr__(self, "_groups", made)
        found: tuple[Group, ...] = self.__dict__["_groups"]
        return found

    @property
    def calibrates(self) -> bool:
        """Whether images are kept aside to calibrate readings; of a model of differences no reading can be judged."""
        options = method_options(self)
        relative = find_method(self.method).structured and getattr(options, "reference", "absolute") == "relative"
        return self.calibrate and not relative

    @property
    def joined_batch(self) -> int:
        """Images whose loss is computed at once, over all processes."""
        return self.batch_size * self.accumulate if self.exact else self.batch_size

    @property
    def pieces(self) -> int:
        """Pieces in which these go through the backbone."""
        return self.accumulate if self.exact else 1

    @property
    def added_batches(self) -> int:
        """Losses whose gradients are added up before a step."""
        return 1 if self.exact else self.accumulate

    def __repr__(self) -> str:
        plain = Experiment()
        differing = [e.name for e in fields(self) if getattr(self, e.name) != getattr(plain, e.name)]
        shown = dict.fromkeys(["method", "group", "data", *differing])
        return f"Experiment({', '.join(f'{key}={getattr(self, key)!r}' for key in shown)})"

    @property
    def name(self) -> str:
        """A short name for the run's folder."""
        return self.name_beside(None)

    def name_beside(self, recipe: Experiment | None) -> str:
        """A short name that says what differs from a recipe: reference, stack, lambda, seed."""
        recipe = recipe or replace(self, **{key: getattr(Experiment, key) for key in NAMED})
        images = re.sub(r"[*?\[\]]+", "", Path(self.data).stem).strip("-_.")
        parts = [self.method, *self.group, images or "images"]
        for key in ("reference", "stack"):
            parts += [getattr(self, key)] if getattr(self, key) != getattr(recipe, key) else []
        weight = group_weight(self)
        if weight is not None and weight != group_weight(recipe):
            parts.append(f"lambda{weight:g}")
        return "-".join([*parts, *([f"seed{self.seed}"] if self.seed != recipe.seed else [])])

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Experiment:
        """A shipped recipe (demo, cpu, photos, paper, paper-full-stack) with changes."""
        return from_dict(merge(preset(name), adopt(changes)), f"preset {name}")

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Experiment:
        """The experiment of a file, such as a run's config.yaml. What it names is never imported for it."""
        return from_file(read_yaml(Path(path)), str(path))

    def to_yaml(self, path: str | os.PathLike[str] | None = None) -> str:
        """The experiment as YAML, each key with its meaning; also written to a file, if one is named."""
        lines, values = [], self.to_dict()
        for entry in fields(self):
            value = values[entry.name]
            text = yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=10_000).strip()[1:-1]
            lines.append(f"{entry.name}: {text}  # {entry.metadata['help']}")
        text = "\n".join(lines) + "\n"
        if path is not None:
            write_text(Path(path), text)
        return text

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in config.yaml."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


_POSITIVE = (
    *("bins", "sigma", "temperature", "epochs", "batch_size", "accumulate", "lr"),
    *("dim", "subset", "image_size", "devices", "nodes", "grid", "neck_width", "turns", "trunk_size"),
)
NAMED = ("reference", "stack", "weight", "seed")
"""What a run's name says where it is not as in the recipe."""


def from_dict(values: Mapping[str, Any], source: str = "the configuration") -> Experiment:
    """The experiment of plain values; unknown keys and wrong types are refused by name."""
    if not isinstance(values, Mapping):
        raise DuetError(f"{source} must hold `key: value` lines")
    known = {entry.name: entry.metadata["help"] for entry in fields(Experiment)}
    for key in values:
        if key not in known:
            raise DuetError(f"{source} has an unknown key {shown(key)}{did_you_mean(str(key), known)}")
    try:
        return Experiment(**typed(Experiment, values))
    except DuetError as error:
        raise DuetError(f"{source}: {error}") from None


def from_file(values: Mapping[str, Any], source: str) -> Experiment:
    """The experiment of a file's values: what it needs of its author's must have been imported by the user."""
    check_file(values, source)
    return from_dict(values, source)


def check_file(values: Mapping[str, Any], source: str) -> None:
    """Refuse a file's values, all of a run's or some, that need a module which the user has not named."""
    asked = values.get("plugins") or []
    require_plugins([str(name) for name in (asked if isinstance(asked, list) else [asked])], source)
    for network in (str(values.get("encoder", "")), str(values.get("trunk") or "")):
        module = network.partition(":")[0]
        if is_spec(network) and module != "timm" and not trusted(module):
            raise DuetError(f"{source} needs {network}, a module of its author's: read it, then give --plugin {module}")


def method_options(experiment: Experiment) -> Any:
    """The method's own options: its defaults, the run's keys of the same name, and what `options` says."""
    kind = find_method(experiment.method).Options
    known = {entry.name: entry.metadata.get("help", "") for entry in fields(kind)}
    for key in experiment.options:
        if key not in known:
            there = f"; it has {', '.join(known)}" if known else "; it has none"
            raise DuetError(f"{experiment.method} has no option {key!r}{did_you_mean(str(key), known)}{there}")
    named = [entry.name for entry in fields(experiment) if entry.name in known and entry.name not in LOOP]
    shared = {name: getattr(experiment, name) for name in named}
    given = {key: value for key, value in shared.items() if value is not None} | dict(experiment.options)
    made = kind(**typed(kind, given))
    for key, allowed in choices(kind).items():
        _one_of(key, getattr(made, key), allowed)
    return made


def unused_keys(experiment: Experiment) -> list[str]:
    """Keys that were set and that the method does not know."""
    own = vars(method_options(experiment))
    settable = {"weight": None, "reference": "absolute"}
    return [key for key, unset in settable.items() if getattr(experiment, key) != unset and key not in own]


def group_weight(experiment: Experiment) -> float | None:
    """lambda, or the weight of whatever the method adds to its contrast; None when it adds nothing."""
    weight = getattr(method_options(experiment), "weight", None)
    return None if weight is None else float(weight)


def build_stack(experiment: Experiment) -> Stack:
    """The augmentations."""
    make: Any = {"rrc": Stack.rrc_plus, "mild": Stack.mild, "full": Stack.full}[experiment.stack]
    own = {"blur": experiment.blur} if experiment.stack == "full" else {}
    stack: Stack = make(experiment.groups, area=experiment.area, **own)
    if experiment.channels == 1:
        colour = [stage.group.name for step in stack.stages for stage in step.stages if stage.group.channels == 3]
        if colour:
            raise DuetError(
                f"{', '.join(colour)} need colour: train with channels 3, or with the rrc stack and another group"
            )
    return stack


def build_target(experiment: Experiment, group: Group) -> Target:
    """The target of a group's marginal: by its domain, unless one was asked for."""
    kind = experiment.target or ("vonmises" if group.cyclic else "gaussian")
    return VonMises(sigma=experiment.sigma) if kind == "vonmises" else Gaussian(sigma=experiment.sigma)


def _axes(experiment: Experiment) -> list[Axis]:
    return [Axis(group.name, experiment.bins, build_target(experiment, group)) for group in experiment.groups]


def build_layout(experiment: Experiment, dim: int) -> Layout:
    """How the features are arranged: a table where the method has one, else flat."""
    if not find_method(experiment.method).structured:
        return Flat(dim)
    axes = _axes(experiment)
    kind = experiment.layout or ("table" if len(axes) == 1 else "concatenated")
    if kind == "table":
        return Table.from_dim(dim, axes[0])
    return (Joint if kind == "joint" else Concatenated).from_dim(dim, axes)


def build_method(
    experiment: Experiment, backbone: Backbone | None = None, image_size: tuple[int, int] = (32, 32)
) -> Method:
    """The method with fresh weights (seed torch before), around a backbone of your own if you give one."""
    backbone = backbone or build_network(experiment, image_size)
    *hidden, out = experiment.projector
    parts = Parts(
        backbone,
        build_layout(experiment, backbone.dim),
        experiment.groups,
        projector=lambda width: Projector(width, tuple(hidden), out),
        contrast=find_objective(experiment.contrast, temperature=experiment.temperature),
        hidden=max(hidden or [out]),
    )
    method = find_method(experiment.method)
    try:
        made = method.build(parts, method_options(experiment))
        made.view_count = experiment.views
        return made
    except TypeError as error:
        if home_of(method) is None:
            raise
        raise DuetError(f"{method.__name__} cannot be built: {first_line(error)}") from error


def build_optimizer(groups: list[dict[str, Any]], experiment: Experiment) -> torch.optim.Optimizer:
    """The optimiser over groups of parameters, as one fused kernel where there is one."""
    e = experiment
    fused = all(p.device.type in ("cpu", "cuda") for group in groups for p in group["params"])
    if e.optimizer == "sgd":
        momentum = e.betas[0]
        return torch.optim.SGD(groups, e.lr, momentum, weight_decay=e.weight_decay, nesterov=momentum > 0, fused=fused)
    kind = torch.optim.Adam if e.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, e.lr, e.betas, weight_decay=e.weight_decay, fused=fused)


def open_data(experiment: Experiment, split: str | None = None) -> Images:
    """The images that are trained on, or all of another split."""
    named = data_of(experiment)
    return open_images(**named if split is None else {**named, "split": split, "subset": None})


def data_of(experiment: Experiment) -> dict[str, Any]:
    """Which images a run takes and how: arguments of `open_images`, as a model's provenance keeps them."""
    return {
        "source": experiment.data,
        "image_size": experiment.image_size,
        "channels": experiment.channels,
        "subset": experiment.subset,
        "seed": experiment.seed,
        "storage": experiment.storage,
        **({} if experiment.split == "train" else {"split": experiment.split}),
    }


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        known = [str(a) for a in allowed if a is not None]
        raise DuetError(
            f"{name} cannot be {shown(value)}{did_you_mean(str(value), known)}; it is one of {', '.join(known)}"
        )
