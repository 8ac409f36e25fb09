"""Residual networks: one class, from the two-core encoder to ResNet-50."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .convolution import Conv2d


@dataclass(frozen=True)
class Stem:
    """The layers before the residual stages."""

    width: int
    kernel: int = 3
    stride: int = 1
    pool: bool = False


@dataclass(frozen=True)
class Stage:
    """A run of residual blocks with one width; its first block carries the stride."""

    width: int
    blocks: int
    stride: int


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut: (B, in, H, W) -> (B, out, H/s, W/s)."""

    def __init__(self, in_width: int, width: int, stride: int) -> None:
        super().__init__()
        self.out_width = width
        self.conv1 = _conv(in_width, width, 3, stride)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(in_width, width, stride)
        self.relu = nn.ReLU(inplace=True)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        return self.norm2

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        # In place: neither batch norm nor the sum needs this value for its gradient.
        y += self.shortcut(x)
        return self.relu(y)  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions around a shortcut: (B, in, H, W) -> (B, 4 * width, H/s, W/s)."""

    def __init__(self, in_width: int, width: int, stride: int) -> None:
        super().__init__()
        self.out_width = 4 * width
        self.conv1 = _conv(in_width, width, 1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, self.out_width, 1)
        self.norm3 = nn.BatchNorm2d(self.out_width)
        self.shortcut = _shortcut(in_width, self.out_width, stride)
        self.relu = nn.ReLU(inplace=True)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        return self.norm3

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        y += self.shortcut(x)
        return self.relu(y)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """Stem, residual stages, global average: (B, channels, H, W) -> (B, width)."""

    def __init__(
        self,
        stem: Stem,
        stages: Sequence[Stage],
        *,
        channels: int = 3,
        block: type[BasicBlock] | type[Bottleneck] = BasicBlock,
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.stem = nn.Sequential(
            _conv(channels, stem.width, stem.kernel, stem.stride),
            nn.BatchNorm2d(stem.width),
            nn.ReLU(inplace=True),
            *([nn.MaxPool2d(3, stride=2, padding=1)] if stem.pool else []),
        )
        width = stem.width
        blocks: list[BasicBlock | Bottleneck] = []
        for stage in stages:
            for number in range(stage.blocks):
                blocks.append(block(width, stage.width, stage.stride if number == 0 else 1))
                width = blocks[-1].out_width
        self.blocks = nn.Sequential(*blocks)
        self.width = width
        self._initialise(zero_init)

    def _initialise(self, zero_init: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            # Each block then starts as its shortcut, which steadies deep networks at large batches.
            if zero_init and isinstance(module, (BasicBlock, Bottleneck)):
                nn.init.zeros_(module.last_norm.weight)

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(self.stem(images)).mean(dim=(2, 3))  # type: ignore[no-any-return]


def _conv(in_width: int, width: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    # No bias: a batch norm follows and would cancel it.
    return Conv2d(in_width, width, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(in_width: int, width: int, stride: int) -> nn.Module:
    if stride == 1 and in_width == width:
        return nn.Identity()
    return nn.Sequential(_conv(in_width, width, 1, stride), nn.BatchNorm2d(width))
