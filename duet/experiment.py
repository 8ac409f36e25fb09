"""The configuration of a run, and the one place where its strings become objects."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
import yaml
from torch import nn

from .data import Images, open_images
from .groups import Group, Stack, find_group, rot360
from .methods import ESSL, Duet, Method, SimCLR
from .networks import Backbone, Projector, build_backbone
from .representation import Axis, Concatenated, Flat, Gaussian, Joint, Layout, Table, Target, VonMises


def option(default: Any, meaning: str) -> Any:
    """A field with its default and the sentence that `--help` shows."""
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's result. The same Experiment gives the same weights on one machine."""

    method: Literal["duet", "simclr", "essl"] = option("duet", "what is trained; duet with --weight 0 is the ablation")
    group: tuple[str, ...] = option(("rot360",), "the transformation, or several, that the features should keep")
    data: str = option("digits", "a set's name, an image folder, a parquet file or glob")

    weight: float | None = option(None, "of the group loss (lambda); default 10, for essl 0.4")
    reference: Literal["absolute", "relative"] = option("absolute", "match g itself, or the difference of two views")
    layout: Literal["table", "joint", "concatenated"] | None = option(
        None, "how features are arranged; default table, for several groups concatenated"
    )
    bins: int = option(8, "columns of the table for each group (G)")
    sigma: float = option(0.2, "spread of the target, in units of g")
    target: Literal["gaussian", "vonmises"] | None = option(
        None, "default: von Mises on circles, Gaussian on intervals"
    )
    temperature: float = option(0.1, "of the contrast")

    stack: Literal["rrc", "full"] = option("rrc", "augmentations: a crop and the group, or the full SimCLR stack")
    area: tuple[float, float] = option((0.2, 1.0), "smallest and largest area of a crop")
    corners: Literal["zero", "circle"] = option("zero", "rot360: black corners, or every view seen through a disc")

    encoder: str = option("resnet32", "backbone: small, resnet32, resnet18, ..., or timm:NAME")
    dim: int | None = option(None, "features; default the backbone's own")
    projector: tuple[int, ...] = option((2048, 2048, 128), "widths of the projector's layers")

    epochs: int = option(800, "passes over the images")
    batch_size: int = option(2048, "images in a step, over all processes; each gives two views")
    accumulate: int = option(1, "batches whose gradients are added up before a step")
    optimizer: Literal["adam", "adamw"] = option("adam", "optimiser")
    lr: float = option(1e-4, "highest learning rate")
    betas: tuple[float, float] = option((0.9, 0.95), "the optimiser's averages")
    weight_decay: float = option(1e-4, "of the optimiser")
    warmup_epochs: float = option(10, "epochs in which the learning rate rises; then it falls as a cosine")

    subset: int | None = option(None, "train on this many images only, class-balanced")
    image_size: int | None = option(None, "side of the square images; default their own")
    channels: Literal[1, 3] = option(3, "1 for grey images")
    normalize: bool = option(True, "subtract the data's mean and divide by its spread, inside the encoder")
    storage: Literal["auto", "memory", "stream"] = option("auto", "decode all at once, or while training")

    action_pairs: int = option(12_000, "pairs of transformed images for the fitted action; 0 leaves it out")
    seed: int = option(0, "of everything random")
    precision: Literal["32", "bf16", "16", "64"] = option("32", "of the arithmetic; bf16 and 16 are mixed")
    compile: bool = option(False, "compile the backbone")
    devices: int = option(1, "processes on this machine, one a device")
    nodes: int = option(1, "machines")
    strategy: str = option("auto", "how processes work together, as Lightning names it; auto is ddp for several")
    sync_batchnorm: bool = option(False, "batch statistics over all processes")

    def __post_init__(self) -> None:
        for name, allowed in choices().items():
            value = getattr(self, name)
            if value not in allowed:
                known = ", ".join(str(a) for a in allowed if a is not None)
                raise ValueError(
                    f"{name} cannot be {value!r}{_near(str(value), known.split(', '))}; it is one of {known}"
                )
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0; it is {value}")
        for name in ("weight", "weight_decay", "warmup_epochs", "action_pairs"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} cannot be negative; it is {value}")
        if not self.group or len(set(self.group)) < len(self.group):
            raise ValueError(f"group needs one or more names, each once; it is {' '.join(self.group) or 'empty'}")
        if len(self.projector) < 1 or min(self.projector) < 1:
            raise ValueError(f"projector needs one width or more; it is {self.projector}")
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"warmup_epochs ({self.warmup_epochs:g}) is longer than the training ({self.epochs} epochs)"
            )
        if self.batch_size % (self.devices * self.nodes):
            raise ValueError(f"batch_size ({self.batch_size}) must divide by the {self.devices * self.nodes} processes")
        if self.layout == "table" and len(self.group) > 1:
            raise ValueError("a table has one group; for several use layout concatenated or joint")
        groups(self)

    @property
    def group_weight(self) -> float:
        """lambda, or ESSL's weight of the prediction."""
        if self.weight is not None:
            return self.weight
        return 0.4 if self.method == "essl" else 10.0

    @property
    def name(self) -> str:
        """A short name for the run's folder."""
        method = "duet-lambda0" if self.method == "duet" and self.weight == 0 else self.method
        return f"{method}-{'-'.join(self.group)}-{Path(self.data).stem.strip('*') or 'images'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in config.yaml."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


_POSITIVE = (
    *("bins", "sigma", "temperature", "epochs", "batch_size", "accumulate", "lr"),
    *("dim", "subset", "image_size", "devices", "nodes"),
)


def from_dict(values: dict[str, Any], source: str = "the configuration") -> Experiment:
    """The experiment of plain values; unknown keys and wrong types are refused by name."""
    if not isinstance(values, dict):
        raise ValueError(f"{source} must hold `key: value` lines")
    hints = get_type_hints(Experiment)
    for key in values:
        if key not in hints:
            raise ValueError(f"{source} has an unknown key {key!r}{_near(str(key), list(hints))}")
    try:
        return Experiment(**{key: _typed(key, value, hints[key]) for key, value in values.items()})
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def read(path: Path) -> dict[str, Any]:
    """The plain values of a YAML file."""
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"cannot read the configuration {path}: {str(error).splitlines()[0]}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold `key: value` lines")
    return values


def preset(name: str) -> dict[str, Any]:
    """The plain values of a shipped recipe."""
    folder = files(__package__) / "presets"
    names = sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    if name not in names:
        raise ValueError(f"no preset {name!r}{_near(name, names)}; there are {', '.join(names)}")
    values = yaml.safe_load((folder / f"{name}.yaml").read_text())
    return dict(values)


def recipe(name: str | None, changes: dict[str, Any]) -> dict[str, Any]:
    """The values of a preset with changes; its lambda is DUET's own, other methods have theirs."""
    values = preset(name) if name else {}
    if changes.get("method", "duet") != "duet":
        values.pop("weight", None)
    return {**values, **changes}


def dump(experiment: Experiment) -> str:
    """The experiment as YAML, each key with its meaning."""
    lines = []
    for entry in fields(experiment):
        value = experiment.to_dict()[entry.name]
        text = yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=10_000).strip()[1:-1]
        lines.append(f"{entry.name}: {text}  # {entry.metadata['help']}")
    return "\n".join(lines) + "\n"


def groups(experiment: Experiment) -> tuple[Group, ...]:
    """The tracked groups."""
    return tuple(
        rot360(experiment.corners) if name == "rot360" and experiment.corners != "zero" else find_group(name)
        for name in experiment.group
    )


def build_stack(experiment: Experiment) -> Stack:
    """The augmentations."""
    make = Stack.rrc_plus if experiment.stack == "rrc" else Stack.full
    stack = make(groups(experiment), area=experiment.area)
    if experiment.channels == 1:
        colour = [stage.group.name for step in stack.stages for stage in step.stages if stage.group.channels == 3]
        if colour:
            raise ValueError(
                f"{', '.join(colour)} need colour: train with channels 3, or with the rrc stack and another group"
            )
    return stack


def build_target(experiment: Experiment, group: Group) -> Target:
    """The target of a group's marginal: by its topology, unless one was asked for."""
    kind = experiment.target or ("vonmises" if group.cyclic else "gaussian")
    return VonMises(sigma=experiment.sigma) if kind == "vonmises" else Gaussian(sigma=experiment.sigma)


def build_layout(experiment: Experiment, dim: int) -> Layout:
    """How the features are arranged: a table for DUET, flat for the other methods."""
    if experiment.method != "duet":
        return Flat(dim)
    axes = [Axis(group.name, experiment.bins, build_target(experiment, group)) for group in groups(experiment)]
    kind = experiment.layout or ("table" if len(axes) == 1 else "concatenated")
    if kind == "table":
        return Table.from_dim(dim, axes[0])
    return (Joint if kind == "joint" else Concatenated).from_dim(dim, axes)


def build_method(experiment: Experiment, backbone: Backbone | None = None) -> Method:
    """The method with fresh weights (seed torch before), around a backbone of your own if you give one."""
    backbone = backbone or build_backbone(experiment.encoder, channels=experiment.channels, dim=experiment.dim)
    layout = build_layout(experiment, backbone.dim)
    content = backbone.dim if not layout.axes else _content_width(layout)
    *hidden, out = experiment.projector
    projector = Projector(content, tuple(hidden), out)
    weight, temperature = experiment.group_weight, experiment.temperature
    if experiment.method == "simclr":
        return SimCLR(backbone, layout, projector, temperature)
    if experiment.method == "essl":
        return ESSL(backbone, layout, projector, groups(experiment), weight, temperature, hidden=max(hidden or [out]))
    return Duet(backbone, layout, projector, weight, experiment.reference, temperature)


def build_optimizer(module: nn.Module, experiment: Experiment) -> torch.optim.Optimizer:
    """Adam or AdamW over all parameters, as one fused kernel where there is one."""
    kind = torch.optim.Adam if experiment.optimizer == "adam" else torch.optim.AdamW
    parameters = list(module.parameters())
    return kind(
        parameters,
        lr=experiment.lr,
        betas=experiment.betas,
        weight_decay=experiment.weight_decay,
        fused=all(p.device.type in ("cpu", "cuda") for p in parameters),
    )


def open_data(experiment: Experiment, split: str = "train") -> Images:
    """The images of a split; `subset` holds for training only."""
    return open_images(
        experiment.data,
        split,
        image_size=experiment.image_size,
        channels=experiment.channels,
        subset=experiment.subset if split == "train" else None,
        seed=experiment.seed,
        storage=experiment.storage,
    )


def _content_width(layout: Layout) -> int:
    import torch

    return int(layout.content(torch.zeros(1, layout.dim)).shape[1])


def choices() -> dict[str, tuple[Any, ...]]:
    """The values that a field may have, for those with a list of them; None among them when it may be left out."""
    found = {}
    for name, hint in get_type_hints(Experiment).items():
        parts = [hint] if get_origin(hint) is Literal else [p for p in get_args(hint) if get_origin(p) is Literal]
        if parts:
            optional = (None,) if type(None) in get_args(hint) else ()
            found[name] = (*get_args(parts[0]), *optional)
    return found


def _typed(key: str, value: Any, hint: Any) -> Any:
    """A plain value as the field's type, or a sentence that says what it should be."""
    kinds = get_args(hint) if get_origin(hint) not in (None, tuple, Literal) else (hint,)
    if value is None and type(None) in kinds:
        return None
    kind = next(k for k in kinds if k is not type(None))
    if get_origin(kind) is Literal:
        first = get_args(kind)[0]
        return type(first)(value) if isinstance(value, int | str) and not isinstance(value, bool) else value
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        values = list(value) if isinstance(value, list | tuple) else [value]
        if inner[-1] is not Ellipsis and len(values) != len(inner):
            raise ValueError(f"{key} takes {len(inner)} values; it is {value!r}")
        return tuple(_typed(key, v, inner[0]) for v in values)
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    try:
        if kind is float and not isinstance(value, bool):
            return float(value)
        if kind is int and not isinstance(value, bool) and float(value) == int(float(value)):
            return int(float(value))
        if kind is bool and str(value).lower() in ("true", "false", "yes", "no"):
            return str(value).lower() in ("true", "yes")
    except (TypeError, ValueError, OverflowError):  # the last of int(inf)
        pass
    raise ValueError(f"{key} must be {_NAMES[kind]}; it is {value!r}")


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _near(word: str, words: list[str]) -> str:
    near = difflib.get_close_matches(word, words, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
