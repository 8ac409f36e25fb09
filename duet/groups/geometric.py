"""Groups that move pixels: rotations, flips, and the scale of a crop.

Angles are counter-clockwise, as a reader sees the image.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..domain import Circle
from ..error import DuetError
from .affine import Affine, disc, from_entries, fuse, permute_pixels, resample
from .group import Group, register_group

Corners = Literal["zero", "circle"]


class Geometric(Group):
    """A group whose true elements are affine maps, so that a stack can compose them before resampling."""

    @abstractmethod
    def affine(self, g: Tensor, size: tuple[int, int], generator: torch.Generator | None = None) -> Affine:
        """The map of every element g (B,) in a frame of `size` = (H, W) pixels."""

    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g by one bilinear resampling: (B,C,H,W), (B,) -> (B,C,H,W)."""
        size = (images.shape[2], images.shape[3])
        return resample(images, fuse([self.affine(g, size, generator)]), size)


class Rotation(Geometric):
    """Rotation about the centre, counter-clockwise; where the image does not reach, black.

    corners="circle" shows every view, the untouched one too, through the inscribed disc, so that black corners do not
    give the angle away.
    """

    unit = "degrees"
    domain = Circle()

    def __init__(
        self,
        name: str,
        span: tuple[float, float],
        identity: float,
        elements: tuple[float, ...] | None = None,
        corners: Corners = "zero",
        title: str = "rotation",
    ) -> None:
        if corners not in ("zero", "circle"):
            raise DuetError(f"corners must be 'zero' or 'circle', not {corners!r}")
        self.name, self.span, self.identity, self.elements, self.title = name, span, identity, elements, title
        self.corners: Corners = corners
        if elements is None:
            self.settings = ("corners",)

    def mask(self, images: Tensor) -> Tensor:
        """The image through the inscribed disc, if that is how it is shown."""
        return images if self.corners == "zero" else images * disc(images)

    def variants(self) -> dict[str, Group]:
        """A full rotation through a disc too, since black corners give the angle away."""
        return {"circle": self._with(corners="circle")} if self.settings and self.corners == "zero" else {}

    def _with(self, **settings: Any) -> Rotation:
        return Rotation(self.name, self.span, self.identity, self.elements, title=self.title, **settings)

    def affine(self, g: Tensor, size: tuple[int, int], generator: torch.Generator | None = None) -> Affine:
        """The inverse rotation in pixels, written in a frame that may not be square."""
        height, width = size
        degrees = self.parameter(g)
        angle = torch.deg2rad(degrees)
        cos, sin = _settled(torch.stack([angle.cos(), angle.sin()]), _is_quarter(degrees.detach()))
        zero = torch.zeros_like(g)
        # y runs down, so a turn that looks counter-clockwise samples the input at the clockwise point.
        matrix = from_entries(cos, sin * (-height / width), zero, sin * (width / height), cos, zero)
        return Affine(matrix, "disc" if self.corners == "circle" else "frame")

    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g by one bilinear resampling; quarter turns of square images move pixels exactly."""
        size = (images.shape[2], images.shape[3])
        quarters = _is_quarter(self.parameter(g.detach()))
        if size[0] != size[1] or self.corners == "circle" or quarters.is_meta or not bool(quarters.any()):
            return super().transform(images, g, generator)
        matrix = self.affine(g.detach(), size).matrix
        if bool(quarters.all()) and not g.requires_grad:
            return permute_pixels(images, matrix)
        out = super().transform(images, g, generator)
        exact = permute_pixels(
            images.detach(), torch.where(quarters.view(-1, 1, 1), matrix, torch.eye(2, 3).to(matrix))
        )
        # The value is the exact one, the gradient that of the resampling.
        return torch.where(quarters.view(-1, 1, 1, 1), exact + (out - out.detach()), out)


def _is_quarter(degrees: Tensor) -> Tensor:
    return torch.remainder(degrees, 90) == 0


def _settled(wave: Tensor, quarter: Tensor) -> Tensor:
    """The cosine or sine of a whole number of quarter turns set to exactly -1, 0 or 1, its gradient untouched."""
    return wave + torch.where(quarter, wave.round() - wave, 0.0).detach()


def rot360(corners: Corners = "zero") -> Rotation:
    """Rotation by -180 to 180 degrees: g = 1/2 is upright."""
    return Rotation("rot360", (-180.0, 180.0), 0.5, corners=corners)


def rot4() -> Rotation:
    """Quarter turns, at g = 1/8, 3/8, 5/8, 7/8; g between them turns by the angle between."""
    return Rotation("rot4", (-45.0, 315.0), 0.125, elements=(0.125, 0.375, 0.625, 0.875), title="quarter turn")


class Flip(Geometric):
    """Mirror left and right, or top and bottom; g between the elements blends the two images on the circle."""

    unit = "flipped"
    domain = Circle()
    elements = (0.25, 0.75)
    identity = 0.25
    span = (-0.5, 1.5)

    def __init__(self, name: str, horizontal: bool) -> None:
        self.name = name
        self.title = "left-right flip" if horizontal else "up-down flip"
        self.horizontal = horizontal

    def affine(self, g: Tensor, size: tuple[int, int], generator: torch.Generator | None = None) -> Affine:
        """The mirror map of true elements: the nearer one is taken."""
        sign = torch.where(self.weight(g) > 0.5, -1.0, 1.0).to(g)
        one, zero = torch.ones_like(g), torch.zeros_like(g)
        x, y = (sign, one) if self.horizontal else (one, sign)
        return Affine(from_entries(x, zero, zero, zero, y, zero))

    def weight(self, g: Tensor) -> Tensor:
        """How much of the flipped image shows: 1 - |1 - 2((g - 1/4) mod 1)|."""
        return 1 - (1 - 2 * torch.remainder(g - 0.25, 1)).abs()

    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The blend of the image and its mirror image: exact at the elements."""
        return torch.lerp(images, images.flip(3 if self.horizontal else 2), _each(self.weight(g), images))


class Scale(Geometric):
    """The relative width w of a crop, g = (w - 0.2) / 0.8; where it lies and its aspect are nuisance.

    `sample` draws the area and the aspect as RandomResizedCrop does and returns the width; `apply` draws an aspect
    from what the width leaves open, so that the two together have exactly that crop's distribution. The aspect is
    relative to the image's own.
    """

    name = "scale"
    unit = "relative width"
    crops = True
    settings = ("area",)
    identity = 1.0
    span = (0.2, 1.0)
    aspect = (3 / 4, 4 / 3)

    def __init__(self, area: tuple[float, float] = (0.2, 1.0)) -> None:
        low, high = area
        smallest = self.span[0] ** 2 / self.aspect[0]
        if not smallest <= low <= high <= 1:
            raise DuetError(f"the crop's area must lie between {smallest:.3f} and 1, smaller first; it is {area}")
        self.area = (float(low), float(high))
        self._quantiles = self._quantiles_of_width()

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw crops that fit and return g of their width: (n,)."""
        quantiles = self._quantiles.to(generator.device, torch.get_default_dtype())
        place = torch.rand(n, generator=generator, device=generator.device) * (len(quantiles) - 1)
        below = place.long()
        return torch.lerp(quantiles[below], quantiles[below + 1], place - below)

    def affine(self, g: Tensor, size: tuple[int, int], generator: torch.Generator | None = None) -> Affine:
        """The window of relative width w and height h; without a generator it is centred and h = w."""
        width = self.parameter(g)
        zero = torch.zeros_like(g)
        if generator is None:
            return Affine(from_entries(width, zero, zero, zero, width, zero))
        draws = torch.rand(3, len(g), generator=generator, device=generator.device).to(g)
        shortest, tallest = self._heights(width, self.area)
        height = torch.lerp(shortest, tallest, draws[0])
        # The window's centre keeps it inside the frame.
        x, y = (2 * draws[1:] - 1) * (1 - torch.stack([width, height]))
        return Affine(from_entries(width, zero, x, zero, height, y))

    def _heights(self, width: Tensor, area: tuple[float, float]) -> tuple[Tensor, Tensor]:
        """The least and the greatest height of a crop of that width; the nearest that there is where none fits."""
        least, most = (a / width for a in area)
        low, high = width / self.aspect[1], (width / self.aspect[0]).clamp(max=1)
        low = torch.minimum(torch.maximum(low, least), high)
        return low, torch.maximum(torch.minimum(high, most), low)

    def _quantiles_of_width(self, parts: int = 4096) -> Tensor:
        """g of the widths that split the drawn crops into equal parts: (parts + 1,)."""
        # With w^2 = area * aspect, h^2 = area / aspect, d(area) d(log aspect) = 2 dw dh: crops are uniform in (w, h),
        # a width is as likely as its heights are many, and its height is uniform.
        low, high = min(self.area[0], self.area[1] - 1e-6), self.area[1]
        narrowest, widest = math.sqrt(low * self.aspect[0]), min(1.0, math.sqrt(high * self.aspect[1]))
        width = torch.linspace(narrowest, widest, 4 * parts + 1, dtype=torch.float64)
        shortest, tallest = self._heights(width, (low, high))
        reached = torch.cumulative_trapezoid(tallest - shortest).numpy()
        reached = np.concatenate([[0.0], reached])
        quantiles = np.interp(np.linspace(0, reached[-1], parts + 1), reached, width.numpy())
        return self.from_parameter(torch.from_numpy(quantiles))


def _each(values: Tensor, images: Tensor) -> Tensor:
    return values.to(images.dtype).view(-1, 1, 1, 1)


for _group in (rot4(), rot360(), Flip("hflip", horizontal=True), Flip("vflip", horizontal=False), Scale()):
    register_group(_group)
