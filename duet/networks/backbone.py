"""Backbones by name: images in, representation out, with a final batch norm that is always ours."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..error import DuetError, first_line, nearest
from ..installation import install_command
from ..plugin import import_name, is_spec
from .mode import in_evaluation_mode
from .resnet import BasicBlock, Bottleneck, ResNet, Stage, Stem

if TYPE_CHECKING:
    from .trunk import Trunk

TIMM = "timm:"
HANDED_IN = "handed-in"
"""What a run's configuration says of a backbone that is not built by name."""


class Backbone(nn.Module):
    """A network and the final batch norm: (B, channels, H, W) float -> (B, dim).

    `width` is what `body` returns; asking for another `dim` puts one linear map between the two.
    The final batch norm is part of the method (its bias is the paper's beta), whatever the body ends with.
    """

    def __init__(
        self, body: nn.Module, width: int, *, channels: int = 3, dim: int | None = None, channels_last: bool = True
    ) -> None:
        super().__init__()
        if dim is not None and dim < 1:
            raise DuetError(f"a representation needs at least one feature, got dim={dim}")
        self.channels = channels
        self.dim = width if dim is None else dim
        self.recipe: dict[str, Any] | None = None
        """The arguments of `build_backbone` that make it again; None for a module that was handed in."""
        self.body = body
        self.map = nn.Identity() if self.dim == width else nn.Linear(width, self.dim, bias=False)
        self.norm = nn.BatchNorm1d(self.dim)
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("std", torch.ones(channels, 1, 1))
        if channels_last:
            # Convolutions follow the layout of their weights, so converting these once is enough.
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    mean: Tensor
    std: Tensor
    trunk: Trunk | None = None
    """The frozen network that it sits on, where it does."""

    def normalise_by(self, mean: Tensor, std: Tensor) -> None:
        """Subtract `mean` (channels,) from every image and divide by `std` (channels,), from now on."""
        self.mean.copy_(mean.view(-1, 1, 1))
        self.std.copy_(std.view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """(B, channels, H, W) -> (B, dim)"""
        self.check(images)
        return self.represent(images)

    def check(self, images: Tensor) -> None:
        """Refuse what are not images with its channels."""
        if images.ndim != 4 or images.shape[1] != self.channels:
            expected = f"(B, {self.channels}, H, W)"
            raise DuetError(f"this encoder takes images {expected}, got {tuple(images.shape)}")

    def represent(self, inputs: Tensor) -> Tensor:
        """What is done to images, or to what a trunk has made of them: standardise, body, map, norm."""
        features = self.map(self.body((inputs - self.mean) / self.std))
        # As precise as the model, also under autocast: in bfloat16 a marginal over g would have three digits.
        return self.norm(features.to(self.mean.dtype))  # type: ignore[no-any-return]


def strided(
    stem: int,
    widths: tuple[int, int, int],
    strides: tuple[int, int, int],
    channels: int = 3,
    zero_init: bool = False,
) -> ResNet:
    """ResNet-8 for two cores: a stem of stride 2 and three stages of one block, for images of 24x24 to 32x32."""
    # At a fixed time budget, more epochs of a network that shrinks early beat fewer of one that does not.
    stages = [Stage(width, 1, stride) for width, stride in zip(widths, strides, strict=True)]
    return ResNet(Stem(stem, stride=2), stages, channels=channels, zero_init=zero_init)


def wide_cifar(blocks: int, channels: int = 3, zero_init: bool = False) -> ResNet:
    """The paper's CIFAR network, with 3, 5, 7 or 9 blocks a stage: 512 features (decision 12)."""
    stages = [Stage(128, blocks, stride=1), Stage(256, blocks, stride=2), Stage(512, blocks, stride=2)]
    return ResNet(Stem(64), stages, channels=channels, zero_init=zero_init)


def standard(
    block: type[BasicBlock] | type[Bottleneck],
    blocks: tuple[int, int, int, int],
    stem: str = "imagenet",
    width: int = 64,
    channels: int = 3,
    zero_init: bool = False,
) -> ResNet:
    """ResNet-18 and ResNet-50, with the ImageNet stem (7x7, stride 2, pooling) or the CIFAR one (3x3, stride 1)."""
    stems = {"imagenet": Stem(width, kernel=7, stride=2, pool=True), "cifar": Stem(width)}
    if stem not in stems:
        raise DuetError(f"no stem {stem!r}; there are {', '.join(stems)}")
    stages = [Stage(width * 2**i, n, stride=1 if i == 0 else 2) for i, n in enumerate(blocks)]
    return ResNet(stems[stem], stages, channels=channels, block=block, zero_init=zero_init)


BACKBONES: dict[str, Callable[..., ResNet]] = {
    "tiny": partial(strided, 16, (16, 32, 128), (2, 2, 2)),
    "small": partial(strided, 32, (32, 64, 128), (2, 2, 2)),
    # A forward pass over a 32x32 image takes so many MFLOP.
    "resnet8-22mf": partial(strided, 32, (64, 128, 256), (2, 2, 2)),
    "resnet8-88mf": partial(strided, 32, (64, 128, 256), (1, 2, 2)),
    "resnet18-half": partial(standard, BasicBlock, (2, 2, 2, 2), stem="cifar", width=32),
    "resnet20": partial(wide_cifar, 3),
    "resnet32": partial(wide_cifar, 5),
    "resnet44": partial(wide_cifar, 7),
    "resnet56": partial(wide_cifar, 9),
    "resnet18": partial(standard, BasicBlock, (2, 2, 2, 2)),
    "resnet18-cifar": partial(standard, BasicBlock, (2, 2, 2, 2), stem="cifar"),
    "resnet50": partial(standard, Bottleneck, (3, 4, 6, 3)),
    "resnet50-cifar": partial(standard, Bottleneck, (3, 4, 6, 3), stem="cifar"),
}


def build_backbone(
    name: str,
    *,
    channels: int = 3,
    dim: int | None = None,
    image_size: tuple[int, int] = (32, 32),
    trunk: Mapping[str, Any] | None = None,
    **options: object,
) -> Backbone:
    """A backbone by name: one of BACKBONES, `timm:<model>`, or your own `module:build`, which is imported.

    `trunk`: the values of an `OnTrunk`; then it is a neck on that trunk, and the name only says so.

    `module:build` calls build(channels=channels) and wraps what it returns; `image_size` is that of an image with which
    the number of its features is found. Options: `stem` (18 and 50), `zero_init`.
    """
    if trunk is not None:
        from .neck import OnTrunk, build_on_trunk  # a neck is a backbone itself

        return build_on_trunk(OnTrunk.from_dict(trunk), dim=dim, image_size=image_size)
    if name == HANDED_IN:
        raise DuetError("this run was trained with a backbone that was handed in; give it again, as backbone=")
    if name.startswith(TIMM):
        backbone = _from_timm(name.removeprefix(TIMM), channels, dim, options)
    elif is_spec(name):
        backbone = _from_module(name, channels, dim, image_size)
    else:
        backbone = _from_name(name, channels, dim, options)
    backbone.recipe = {"name": name, "channels": channels, "dim": dim, **options}
    return backbone


def check_encoder(name: str) -> None:
    """Refuse a name that no encoder can have."""
    if name not in BACKBONES and name != HANDED_IN and not name.startswith(TIMM) and not is_spec(name):
        near = nearest(name, BACKBONES, most=3) or BACKBONES
        raise DuetError(f"no encoder {name!r}; nearest: {', '.join(near)}; or {TIMM}<model>, or module:build")


def _from_name(name: str, channels: int, dim: int | None, options: dict[str, object]) -> Backbone:
    check_encoder(name)
    builder = BACKBONES[name]
    accepted = [option for option in inspect.signature(builder).parameters if option != "channels"]
    for option in options:
        if option not in accepted:
            raise DuetError(f"encoder {name!r} has no option {option!r}; it has {', '.join(accepted)}")
    body = builder(channels=channels, **options)
    return Backbone(body, body.width, channels=channels, dim=dim)


def _from_module(spec: str, channels: int, dim: int | None, image_size: tuple[int, int]) -> Backbone:
    module = build_module(spec, channels)
    if isinstance(module, Backbone):
        return module
    if not isinstance(module, nn.Module):
        raise DuetError(f"{spec} must return a torch module to be trained, not a {type(module).__name__}")
    return wrap(module, channels=channels, dim=dim, image_size=image_size)


def build_module(spec: str, channels: int) -> Any:
    """What the user's `module:build` returns: called with channels=, or without it where it takes none."""
    build = import_name(spec)
    if not callable(build):
        raise DuetError(f"{spec} is not a function that builds an encoder")
    try:
        signature = inspect.signature(build)
        known = "channels" in signature.parameters or any(
            p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values()
        )
        arguments = {"channels": channels} if known else {}
        signature.bind(**arguments)
    except (TypeError, ValueError) as error:
        raise DuetError(f"{spec} must build an encoder from channels= alone: {first_line(error)}") from None
    return build(**arguments)


def wrap(
    module: nn.Module,
    *,
    channels: int = 3,
    width: int | None = None,
    dim: int | None = None,
    image_size: int | tuple[int, int] = 32,
    channels_last: bool = False,
) -> Backbone:
    """Any module (B, channels, H, W) -> (B, width) as a backbone; without `width`, one small image is tried."""
    if width is None:
        width = _probe(module, channels, (image_size, image_size) if isinstance(image_size, int) else image_size)
    return Backbone(module, width, channels=channels, dim=dim, channels_last=channels_last)


def _probe(module: nn.Module, channels: int, image_size: tuple[int, int]) -> int:
    """Number of features of `module`, found in evaluation mode so that no running statistic moves."""
    like = next(module.parameters(), torch.empty(0))
    with torch.no_grad(), in_evaluation_mode(module):
        features = module(torch.zeros(2, channels, *image_size, device=like.device, dtype=like.dtype))
    if not isinstance(features, Tensor) or features.ndim != 2:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise DuetError(f"an encoder must return features (B, D), this {type(module).__name__} returned {got}")
    return features.shape[1]


def _from_timm(name: str, channels: int, dim: int | None, options: dict[str, object]) -> Backbone:
    if not re.fullmatch(r"[\w.-]+", name):
        raise DuetError(f"{TIMM}{name}: timm is asked for models by their plain names, such as timm:resnet18")
    try:
        import timm
    except ImportError:
        raise DuetError(f"{TIMM}{name} needs timm: {install_command('timm')}") from None
    try:
        body = timm.create_model(name, pretrained=False, num_classes=0, in_chans=channels, **options)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DuetError(f"timm cannot build {name!r}: {first_line(error)}") from None
    # With num_classes=0 some families keep a hidden layer after num_features.
    width = int(getattr(body, "head_hidden_size", None) or body.num_features)
    return Backbone(body, width, channels=channels, dim=dim)
