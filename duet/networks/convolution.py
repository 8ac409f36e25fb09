"""A convolution whose weight gradient is one matrix product on small maps, where CPUs with AMX are slow otherwise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from ..device import has_amx

SMALL_MAP = 16
"""Output positions up to which the matrix product was faster: 2.5 to 6 times at 3x3 and 4x4 (decisions, Speed)."""


class Conv2d(nn.Conv2d):
    """`nn.Conv2d` with the same weights and results, faster to train on small maps in bfloat16 on a CPU with AMX."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, in, H, W) -> (B, out, H', W')"""
        if not self.pays(x):
            return super().forward(x)
        low = torch.bfloat16
        y: Tensor = _MatrixGradient.apply(x.to(low), self.weight.to(low), self.stride[0], self.padding[0])  # type: ignore[no-untyped-call]
        return y

    def pays(self, x: Tensor) -> bool:
        """Whether the weight gradient for input `x` is computed as one matrix product."""
        if torch.compiler.is_compiling():
            return False
        if x.device.type != "cpu" or not (torch.is_grad_enabled() and self.weight.requires_grad and has_amx()):
            return False
        if not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") is not torch.bfloat16:
            return False
        return self._is_plain() and self._positions(x) <= SMALL_MAP

    def _is_plain(self) -> bool:
        square = all(len(set(pair)) == 1 for pair in (self.kernel_size, self.stride, self.padding))
        return square and self.bias is None and self.groups == 1 and self.dilation == (1, 1)

    def _positions(self, x: Tensor) -> int:
        kernel, stride, padding = self.kernel_size[0], self.stride[0], int(self.padding[0])
        height, width = ((side + 2 * padding - kernel) // stride + 1 for side in x.shape[2:])
        return height * width


class _MatrixGradient(Function):
    """conv2d(x, w); dL/dw = dL/dy^T patches(x) over all images and positions, in one product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        (dy,) = gradients
        x, weight = ctx.saved_tensors
        dx = None
        if ctx.needs_input_grad[0]:
            stride, padding = [ctx.stride] * 2, [ctx.padding] * 2
            wanted = [True, False, False]
            dx = torch.ops.aten.convolution_backward(
                dy, x, weight, None, stride, padding, [1, 1], False, [0, 0], 1, wanted
            )[0]
        return dx, weight_gradient(x, dy, weight.shape[2], ctx.stride, ctx.padding), None, None


def weight_gradient(x: Tensor, dy: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """(B, in, H, W), (B, out, H', W') -> (out, in, kernel, kernel)"""
    images, channels = x.shape[:2]
    out, height, width = dy.shape[1:]
    padded = F.pad(x, [padding] * 4).permute(0, 2, 3, 1)
    n, h, w, c = padded.stride()
    shape = (images, height, width, kernel, kernel, channels)
    patches = padded.as_strided(shape, (n, stride * h, stride * w, h, w, c))
    rows = patches.reshape(images * height * width, kernel * kernel * channels)
    gradient = dy.permute(0, 2, 3, 1).reshape(-1, out).t() @ rows
    return gradient.view(out, kernel, kernel, channels).permute(0, 3, 1, 2)
