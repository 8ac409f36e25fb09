"""Necks: the small trainable networks that sit on a frozen trunk and end in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..error import DuetError, did_you_mean
from .backbone import Backbone
from .trunk import Trunk, build_trunk, check_layers

DIM = 256
"""Features, unless another number is asked for: a table of 16 x 16."""


class GridNeck(nn.Sequential):
    """Two layers over all places of a small grid: (B,C,s,s) -> (B,width)."""

    def __init__(self, channels: int, side: int, width: int, dropout: float) -> None:
        super().__init__(nn.Flatten(), *_dense(channels * side * side, width, dropout), *_dense(width, width, dropout))


class MapNeck(nn.Sequential):
    """Two 3x3 convolutions of 128 channels, the second with stride 2, and a layer over all places that are left."""

    def __init__(self, channels: int, side: int, width: int, dropout: float, inner: int = 128) -> None:
        left = -(-side // 2)
        super().__init__(
            *_convolution(channels, inner, stride=1),
            *_convolution(inner, inner, stride=2),
            nn.Flatten(),
            *_dense(inner * left * left, width, dropout),
        )


NECKS: dict[str, tuple[Callable[[int, int, int, float], nn.Module], int]] = {"grid": (GridNeck, 4), "map": (MapNeck, 8)}
"""Every neck by name, with the grid that it takes by default."""


@dataclass(frozen=True)
class OnTrunk:
    """Which trunk, read where, with which neck: plain values, as a model's file keeps them."""

    name: str
    layers: tuple[str, ...] = ()
    grid: int | None = None
    neck: str = "map"
    width: int = 512
    dropout: float = 0.3
    unfreeze: tuple[str, ...] = ()
    checksum: str | None = None
    """Of the trunk's weights; None takes what is there."""
    resize: int | None = None
    """The side that images are resized to before the trunk; None leaves them."""

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> OnTrunk:
        """The values of a file, which may be a stranger's: what has another type than it should is refused."""
        kinds: dict[str, Any] = {
            **{"name": str, "layers": list | tuple, "grid": int | None, "neck": str, "width": int},
            **{"dropout": float | int, "unfreeze": list | tuple, "checksum": str | None},
            **{"resize": int | None},
        }
        for key, value in plain.items():
            listed = isinstance(value, list | tuple)
            if not isinstance(value, kinds.get(key, ())) or (listed and not all(isinstance(v, str) for v in value)):
                raise DuetError(f"a trunk with an odd {str(key)[:40]!r}")
        if "name" not in plain:
            raise DuetError("a trunk without a name")
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()}
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; without `resize` where there is none, as earlier versions know them."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: value for key, value in plain.items() if key != "resize" or value is not None}


class TrunkBackbone(Backbone):
    """A neck on a trunk: images (B,3,H,W), or what the trunk made of them (B,C,s,s) -> (B, dim).

    The weights of the trunk are not among its own: a model that holds the neck needs the same trunk to be there. Layers
    that are unfrozen are trained and belong to the model.
    """

    trunk: Trunk

    def __init__(self, trunk: Trunk, neck: nn.Module, width: int, *, dim: int = DIM, unfreeze: tuple[str, ...] = ()):
        super().__init__(neck, width, channels=3, dim=dim)
        self.__dict__["trunk"] = trunk  # not a part of it: its weights are not saved, its mode stays
        self.register_buffer("mean", torch.zeros(trunk.channels, 1, 1))
        self.register_buffer("std", torch.ones(trunk.channels, 1, 1))
        check_layers(trunk.network, unfreeze, trunk.name)
        parts = dict(trunk.network.named_modules())
        trained = {name.replace(".", "/"): parts[name].requires_grad_(True).train() for name in unfreeze}
        self.unfrozen = nn.ModuleDict(trained)

    def forward(self, images: Tensor) -> Tensor:
        """(B,3,H,W) in [0,1] or (B,C,s,s) -> (B, dim)"""
        if images.ndim == 4 and images.shape[1] == self.trunk.channels:
            return self.represent(images)
        self.check(images)
        return self.represent(self.trunk(images))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Devices and types are the trunk's too."""
        if self.trunk is not None:
            self.trunk._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def open_trunk(wanted: OnTrunk, image_size: tuple[int, int] = (128, 128)) -> Trunk:
    """The trunk that is asked for, with its weights."""
    if wanted.neck not in NECKS:
        raise DuetError(f"no neck {wanted.neck!r}{did_you_mean(wanted.neck, NECKS)}; there are {', '.join(NECKS)}")
    _, usual = NECKS[wanted.neck]
    if wanted.width < 1 or not 0 <= wanted.dropout < 1:
        raise DuetError(f"a neck's width is above 0 and its dropout in [0, 1), not {wanted.width}, {wanted.dropout:g}")
    grid = usual if wanted.grid is None else wanted.grid
    trunk = build_trunk(wanted.name, wanted.layers, grid, image_size, wanted.resize)
    if wanted.checksum not in (None, trunk.checksum):
        raise DuetError(
            f"the trunk {trunk.name} that is installed has the checksum {trunk.checksum[:16]}, and the model needs "
            f"{str(wanted.checksum)[:16]}: install the weights that it was trained on"
        )
    return trunk


def build_on_trunk(
    wanted: OnTrunk, *, dim: int | None = None, image_size: tuple[int, int] = (128, 128), trunk: Trunk | None = None
) -> TrunkBackbone:
    """A fresh neck on a trunk, opened for images of a size if it is not given; its recipe makes it again."""
    trunk = trunk or open_trunk(wanted, image_size)
    make, _ = NECKS[wanted.neck]
    neck = make(trunk.channels, trunk.side, wanted.width, wanted.dropout)
    backbone = TrunkBackbone(trunk, neck, wanted.width, dim=DIM if dim is None else dim, unfreeze=wanted.unfreeze)
    made = {**asdict(wanted), "layers": trunk.layers, "grid": trunk.side, "checksum": trunk.checksum}
    recipe = OnTrunk(**made).to_dict()
    named = f"{trunk.name} with a {wanted.neck} neck"
    backbone.recipe = {"name": named, "channels": 3, "dim": backbone.dim, "trunk": recipe}
    return backbone


def _dense(before: int, after: int, dropout: float) -> list[nn.Module]:
    # No bias: the batch norm has one.
    return [nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU(inplace=True), nn.Dropout(dropout)]


def _convolution(before: int, after: int, stride: int) -> list[nn.Module]:
    layer = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
    return [layer, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
