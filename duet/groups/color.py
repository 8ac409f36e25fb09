"""Groups that change colours, with Pillow's semantics: brightness blends with black, contrast with the mean grey,
saturation with the grey image, hue turns in HSV; the result is clamped to [0, 1]."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from .group import Group, register_group

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as in Pillow's mode L


class Color(Group):
    """A group that acts on the three colours of a pixel; the factor of every sample is its raw parameter."""

    channels = 3
    probability = 0.8

    @abstractmethod
    def change(self, images: Tensor, factor: Tensor, out: Tensor | None = None) -> Tensor:
        """Colours changed by factor (B,1,1,1), written to `out` when given."""

    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g: (B,3,H,W), (B,) -> (B,3,H,W)."""
        return self.change(images, self._factor(images, g))

    def transform_(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g written over the images."""
        return self.change(images, self._factor(images, g), out=images)

    def _factor(self, images: Tensor, g: Tensor) -> Tensor:
        return self.parameter(g).to(images.dtype).view(-1, 1, 1, 1)


class Brightness(Color):
    """x -> factor * x."""

    name = "brightness"
    unit = "factor"
    identity = 0.5
    span = (0.6, 1.4)

    def change(self, images: Tensor, factor: Tensor, out: Tensor | None = None) -> Tensor:
        """Blend with black."""
        return torch.mul(images, factor, out=out).clamp_(max=1)


class Contrast(Color):
    """x -> mean + factor * (x - mean), with the mean of the grey image."""

    name = "contrast"
    unit = "factor"
    identity = 0.5
    span = (0.6, 1.4)

    def change(self, images: Tensor, factor: Tensor, out: Tensor | None = None) -> Tensor:
        """Blend with the mean grey."""
        mean = luma(images.mean(dim=(2, 3), keepdim=True))
        return blend(images, mean, factor, out).clamp_(0, 1)


class Saturation(Color):
    """x -> grey + factor * (x - grey)."""

    name = "saturation"
    unit = "factor"
    identity = 0.5
    span = (0.6, 1.4)

    def change(self, images: Tensor, factor: Tensor, out: Tensor | None = None) -> Tensor:
        """Blend with the grey image."""
        return blend(images, luma(images), factor, out).clamp_(0, 1)


class Grayscale(Color):
    """x -> x + amount * (grey - x): colour at g = 0, grey at g = 1, paler between."""

    name = "grayscale"
    unit = "amount"
    elements = (0.0, 1.0)
    probability = 0.4  # half of what is drawn is the identity

    def change(self, images: Tensor, factor: Tensor, out: Tensor | None = None) -> Tensor:
        """Blend with the grey image."""
        return blend(images, luma(images), 1 - factor, out)


class Hue(Color):
    """Turn the hue by a fraction of the colour circle, keeping HSV's saturation and value."""

    name = "hue"
    unit = "turns"
    identity = 0.5
    span = (-0.1, 0.1)

    def change(self, images: Tensor, factor: Tensor, out: Tensor | None = None) -> Tensor:
        """Turn the hue; HSV is never stored: value and chroma stay, so only the hue's position is computed."""
        red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
        value = torch.maximum(torch.maximum(red, green), blue)
        below = value - images
        red, green, blue = below[:, 0:1], below[:, 1:2], below[:, 2:3]
        chroma = torch.maximum(torch.maximum(red, green), blue)
        # The hue's position in sixths of the circle, times the chroma, if red, green or blue is strongest ...
        positions = (blue - green, (red - blue).add_(chroma, alpha=2), (green - red).add_(chroma, alpha=4))
        # ... chosen by weights that are 1 where that colour is strongest and 0 elsewhere: torch.where is far slower.
        steep = torch.finfo(images.dtype).max
        is_red, is_green = (torch.rsub(c.detach(), 1, alpha=steep).clamp_(min=0) for c in (red, green))
        hue = torch.lerp(torch.lerp(positions[2], positions[1], is_green), positions[0], is_red)
        hue = hue.div_(chroma.clamp(min=1e-12)).add_(6 * factor)
        # A channel is full within one sixth of its own hue, empty beyond two sixths, and linear between. On a circle of
        # six the distance to its own hue is 3 - |3 - |t||, since t = hue - own stays within (-6, 6).
        full = (hue - hue.new_tensor([0.0, 2.0, 4.0]).view(3, 1, 1)).abs_().sub_(3).abs_().clamp_(1, 2)
        return torch.addcmul(value.sub_(chroma, alpha=2), chroma, full, out=out).clamp_(0, 1)


def blend(images: Tensor, other: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """weight * images + (1 - weight) * other: exactly the images where the weight is one."""
    return torch.mul(images, weight, out=out).add_(other * (1 - weight))


def luma(images: Tensor) -> Tensor:
    """The grey value of every pixel: (B,3,H,W) -> (B,1,H,W)."""
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    return (red * LUMA[0]).add(green, alpha=LUMA[1]).add(blue, alpha=LUMA[2])


for _group in (Grayscale(), Brightness(), Contrast(), Saturation(), Hue()):
    register_group(_group)
