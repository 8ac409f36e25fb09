"""The decoder of the generation study: features back to images, a ResNet-18 run in reverse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..device import widest
from ..error import DuetError
from ..representation.moment import standard_scale


class Decoder(nn.Module):
    """Features to images in [0,1]: (B, dim) -> (B, channels, *size).

    As in the paper: residual stages, swish, group norm, and self-attention at the lowest resolution. The defaults are
    ResNet-18's widths in reverse, 512-256-128-64 with two blocks a stage; `width`, `blocks` and `stages` scale it down.
    With `patch` p the last stage stays p times smaller than the image and its last convolution draws p x p pixels at
    each place: the mirror image of a strided stem.
    """

    mean: Tensor  # (dim,)
    scale: Tensor  # (dim,)

    def __init__(
        self,
        dim: int,
        channels: int,
        size: tuple[int, int],
        *,
        width: int = 64,
        blocks: int = 2,
        stages: int = 4,
        patch: int = 1,
        heads: int = 4,
    ) -> None:
        super().__init__()
        given = {"dim": dim, "channels": channels, "height": size[0], "width of the image": size[1]}
        given |= {"width": width, "blocks": blocks, "stages": stages, "patch": patch, "heads": heads}
        for name, value in given.items():
            if value < 1:
                raise DuetError(f"a decoder's {name} must be at least 1; it is {value}")
        widths = [width * 2**level for level in reversed(range(stages))]
        if widths[0] % heads:
            raise DuetError(f"{widths[0]} channels at the lowest resolution do not divide by {heads} heads")
        self.dim, self.channels, self.size = dim, channels, (size[0], size[1])
        self.width, self.blocks, self.stages, self.patch, self.heads = width, blocks, stages, patch, heads
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        places = _sizes(self.size, stages, patch)
        self._lowest = places[0]
        self.stem = nn.Linear(dim, widths[0] * math.prod(places[0]))
        layers: list[nn.Module] = []
        before = widths[0]
        for level, (now, place) in enumerate(zip(widths, places, strict=True)):
            for block in range(blocks):
                layers.append(Block(before, now, place if level and not block else None))
                before = now
            if level == 0:
                layers.append(Attention(now, heads))
        self.body = nn.Sequential(*layers)
        self.norm = _norm(widths[-1])
        self.last = nn.Conv2d(widths[-1], channels * patch**2, 3, padding=1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def standardise_by(self, features: Tensor) -> None:
        """From now on subtract the mean of these features (N, dim) and divide by their spread."""
        if features.ndim != 2 or features.shape[1] != self.dim or not len(features):
            raise DuetError(f"this decoder takes features (N, {self.dim}), got {tuple(features.shape)}")
        scale, mean = torch.std_mean(features.to(widest(features)), dim=0, correction=0)
        self.mean.copy_(mean)
        self.scale.copy_(standard_scale(mean, scale))

    def forward(self, z: Tensor) -> Tensor:
        """(B, dim) -> (B, channels, *size) in [0,1]"""
        return self.unbounded(z).clamp(0, 1)

    def unbounded(self, z: Tensor) -> Tensor:
        """The same before it is clamped to [0,1]; for training, where a clamped pixel would have no gradient."""
        x = self.stem((z - self.mean) / self.scale).unflatten(1, (-1, *self._lowest))
        x = self.body(x.contiguous(memory_format=torch.channels_last))
        x = self.last(functional.silu(self.norm(x)))
        height, width = self.size
        return functional.pixel_shuffle(x, self.patch)[:, :, :height, :width]

    @torch.inference_mode()
    def images(self, z: Tensor, batch: int = 512) -> Tensor:
        """Decode many features, a batch at a time, on the decoder's device: (N, dim) -> (N, channels, *size)."""
        if not len(z):
            return self.mean.new_empty(0, self.channels, *self.size)
        return torch.cat([self(part.to(self.mean.device)) for part in torch.split(z, batch)]).clone()

    def to_dict(self) -> dict[str, Any]:
        """The constructor's arguments as plain values; with `state_dict` they are all of it."""
        names = ("dim", "channels", "width", "blocks", "stages", "patch", "heads")
        return {**{name: getattr(self, name) for name in names}, "size": list(self.size)}

    @classmethod
    def from_dict(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> Decoder:
        """The decoder of `to_dict`, with the weights and statistics of its `state_dict` if they are given."""
        height, width = config["size"]
        decoder = cls(**{**config, "size": (int(height), int(width))})
        if tensors is not None:
            decoder.load_state_dict(dict(tensors))
        return decoder.eval()


class Block(nn.Module):
    """Norm, swish, convolution, twice, beside a shortcut; first doubled to `place` if given: (B,I,h,w) -> (B,O,H,W)."""

    def __init__(self, in_width: int, width: int, place: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.place = place
        self.norm1, self.conv1 = _norm(in_width), nn.Conv2d(in_width, width, 3, padding=1)
        self.norm2, self.conv2 = _norm(width), nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Identity() if in_width == width else nn.Conv2d(in_width, width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.silu(self.norm1(x))
        # The shortcut is pointwise: before the doubling it costs a quarter.
        y, x = self._enlarge(y), self._enlarge(self.shortcut(x))
        y = self.conv2(functional.silu(self.norm2(self.conv1(y))))
        return y + x  # type: ignore[no-any-return]

    def _enlarge(self, x: Tensor) -> Tensor:
        if self.place is None:
            return x
        return functional.interpolate(x, scale_factor=2.0)[:, :, : self.place[0], : self.place[1]]


class Attention(nn.Module):
    """Every place looks at every other, beside a shortcut: (B,W,h,w) -> (B,W,h,w)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = _norm(width)
        # No bias: that of the keys shifts all scores of a query alike, which softmax ignores.
        self.look = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x).flatten(2).transpose(1, 2)  # (B, h w, W)
        query, key, value = self.look(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)  # (B, heads, h w, W / heads)
        told = self.out(seen.transpose(1, 2).flatten(2))  # (B, h w, W)
        return x + told.transpose(1, 2).unflatten(2, x.shape[2:])  # type: ignore[no-any-return]


def _sizes(size: tuple[int, int], stages: int, patch: int) -> list[tuple[int, int]]:
    """(H, W) of every stage, the lowest first: each half the next, rounded up, so that doubling always suffices."""
    height, width = (-(-side // patch) for side in size)
    sizes = [(height, width)]
    for _ in range(stages - 1):
        height, width = -(-height // 2), -(-width // 2)
        sizes.insert(0, (height, width))
    return sizes


def _norm(width: int) -> nn.GroupNorm:
    # At most 32 groups and at least four channels in each: one channel alone would lose its level.
    return nn.GroupNorm(math.gcd(min(32, max(1, width // 4)), width), width)


def small_decoder(dim: int, channels: int, size: tuple[int, int]) -> Decoder:
    """The two-core decoder, partner of the `small` encoder."""
    return Decoder(dim, channels, size, width=32, blocks=1, stages=2, patch=4)
