"""How the features of one image are arranged: rows of content, columns of group."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ..error import DuetError
from .target import Target, target_from_dict


@dataclass(frozen=True)
class Axis:
    """One group's columns: its name, their number, and the target that their marginal follows."""

    name: str
    bins: int
    target: Target

    def __post_init__(self) -> None:
        if not isinstance(self.bins, int) or not isinstance(self.target, Target):
            raise DuetError(f"axis {self.name!r} takes a whole number of bins and a target such as VonMises(0.2)")
        if self.bins < 2:
            raise DuetError(f"axis {self.name!r} needs at least 2 bins, not {self.bins}")

    @property
    def readable(self) -> bool:
        """Whether g can be read off the columns: two on a circle cannot tell g from its mirror image."""
        return self.bins >= self.target.domain.least_bins

    def flat(self, spread: Tensor) -> Tensor:
        """Whether marginals say nothing: of a spread nearer to that of equal masses than to that of the target."""
        sharp = self.target.masses(torch.tensor([0.5]), self.bins)
        ends = self.target.estimate(torch.cat([sharp, torch.full_like(sharp, 1 / self.bins)])).spread
        return spread > float(ends.mean())

    def to_dict(self) -> dict[str, Any]:
        """Plain values from which `from_dict` makes an equal axis."""
        return {"name": self.name, "bins": self.bins, "target": self.target.to_dict()}

    @staticmethod
    def from_dict(plain: dict[str, Any]) -> "Axis":
        """The axis that `to_dict` described."""
        return Axis(plain["name"], plain["bins"], target_from_dict(plain["target"]))


class Layout(ABC):
    """An arrangement of `dim` features z (B, dim), row-major: content first, group columns last."""

    kind: ClassVar[str]
    dim: int
    axes: tuple[Axis, ...]

    @abstractmethod
    def content(self, z: Tensor) -> Tensor:
        """c_i = sum_j z_ij over the columns: (B, dim) -> (B, C), one C per block if Concatenated."""

    @abstractmethod
    def group_logits(self, z: Tensor, axis: str | Axis) -> Tensor:
        """mu_j = mean_i z_ij over everything but the columns of `axis`: (B, dim) -> (B, bins)."""

    @abstractmethod
    def add(self, z: Tensor, axis: str | Axis, offset: Tensor) -> Tensor:
        """z_ij + offset_j in the columns of `axis`: group_logits moves by offset. (B, dim), (B, bins) -> (B, dim)."""

    @abstractmethod
    def roll(self, z: Tensor, axis: str | Axis, by: int) -> Tensor:
        """z_ij -> z_i(j - by), the columns of `axis` moved on by so many, around: (B, dim) -> (B, dim)."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values from which `layout_from_dict` makes an equal layout."""

    @property
    def content_width(self) -> int:
        """Numbers of content a sample."""
        return int(self.content(torch.zeros(1, self.dim)).shape[1])

    def find(self, axis: str | Axis) -> Axis:
        """The axis of that name; an Axis must be one of this layout's own."""
        return self.axes[self._place(axis)]

    def _place(self, axis: str | Axis) -> int:
        for place, own in enumerate(self.axes):
            if axis in (own, own.name):
                return place
        raise self._no_axis(axis)

    def _no_axis(self, axis: str | Axis) -> DuetError:
        names = ", ".join(own.name for own in self.axes) or "none"
        if isinstance(axis, Axis) and any(axis.name == own.name for own in self.axes):
            return DuetError(f"axis {axis.name!r} has other bins or another target in this model")
        return DuetError(f"no axis {axis.name if isinstance(axis, Axis) else axis!r}; this model has {names}")

    def _check(self, z: Tensor) -> Tensor:
        if z.ndim != 2 or z.shape[-1] != self.dim:
            raise DuetError(f"this layout takes features (B, {self.dim}), not {tuple(z.shape)}")
        return z


@dataclass(frozen=True)
class Flat(Layout):
    """No structure: the content is the features themselves (SimCLR, ESSL)."""

    dim: int
    kind: ClassVar[str] = "flat"
    axes: ClassVar[tuple[Axis, ...]] = ()  # type: ignore[misc]

    def __post_init__(self) -> None:
        _check_count("features", self.dim)

    def content(self, z: Tensor) -> Tensor:
        return self._check(z)

    def group_logits(self, z: Tensor, axis: str | Axis) -> Tensor:
        raise self._no_axis(axis)

    def add(self, z: Tensor, axis: str | Axis, offset: Tensor) -> Tensor:
        raise self._no_axis(axis)

    def roll(self, z: Tensor, axis: str | Axis, by: int) -> Tensor:
        raise self._no_axis(axis)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "dim": self.dim}


S = TypeVar("S", bound="Structured")


@dataclass(frozen=True, init=False)
class Structured(Layout):
    """`rows` of content by the columns of one or several axes."""

    rows: int
    axes: tuple[Axis, ...]
    dim: int

    def __init__(self, content: int, axes: Sequence[Axis]) -> None:
        _check_count("rows of content", content)
        names = [axis.name for axis in axes]
        if not names or len(set(names)) < len(names):
            raise DuetError(f"a {self.kind} layout needs one or more axes, no two of one name, not {names}")
        object.__setattr__(self, "rows", content)
        object.__setattr__(self, "axes", tuple(axes))
        object.__setattr__(self, "dim", content * self.columns(axes))

    @staticmethod
    @abstractmethod
    def columns(axes: Sequence[Axis]) -> int:
        """Number of columns that these axes take."""

    @classmethod
    def from_dim(cls: type[S], dim: int, axes: Sequence[Axis]) -> S:
        """The layout of `dim` features; refuses a number that the columns do not divide."""
        return cls(_rows(dim, cls.columns(axes)), axes)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "content": self.rows, "axes": [axis.to_dict() for axis in self.axes]}


class Joint(Structured):
    """C x G_A x G_B x ...: exact, and grows as the product of the bins (Appendix C)."""

    kind = "joint"

    @staticmethod
    def columns(axes: Sequence[Axis]) -> int:
        return math.prod(axis.bins for axis in axes)

    def content(self, z: Tensor) -> Tensor:
        return _sum(self._check(z).reshape(z.shape[0], self.rows, self.dim // self.rows), -1)

    def group_logits(self, z: Tensor, axis: str | Axis) -> Tensor:
        return _mean(self._check(z).reshape(z.shape[0], *self._split(axis)), (1, 3))

    def add(self, z: Tensor, axis: str | Axis, offset: Tensor) -> Tensor:
        return (self._check(z).reshape(z.shape[0], *self._split(axis)) + offset[:, None, :, None]).reshape(z.shape)

    def roll(self, z: Tensor, axis: str | Axis, by: int) -> Tensor:
        return self._check(z).reshape(z.shape[0], *self._split(axis)).roll(by, 2).reshape(z.shape)

    def _split(self, axis: str | Axis) -> tuple[int, int, int]:
        """Row-major sizes: all that varies slower than `axis`, its bins, all that varies faster."""
        place = self._place(axis)
        before = self.rows * math.prod([own.bins for own in self.axes[:place]])
        after = math.prod([own.bins for own in self.axes[place + 1 :]])
        return before, self.axes[place].bins, after


class Table(Joint):
    """C x G: the paper's layout, one group."""

    kind = "table"

    def __init__(self, content: int, axis: Axis) -> None:
        super().__init__(content, (axis,))

    @classmethod
    def from_dim(cls, dim: int, axis: Axis | Sequence[Axis]) -> "Table":
        """The table of `dim` features; refuses a number that the axis's bins do not divide."""
        (axis,) = (axis,) if isinstance(axis, Axis) else axis
        return cls(_rows(dim, axis.bins), axis)


class Concatenated(Structured):
    """C x (G_A + G_B + ...), the columns of A first in every row: grows as the sum of the bins (Appendix C)."""

    kind = "concatenated"

    @staticmethod
    def columns(axes: Sequence[Axis]) -> int:
        return sum(axis.bins for axis in axes)

    def content(self, z: Tensor) -> Tensor:
        blocks = torch.split(self._rows_of(z), [axis.bins for axis in self.axes], -1)
        return torch.cat([_sum(block, -1) for block in blocks], -1)  # (B, C * number of axes), the C of A first

    def group_logits(self, z: Tensor, axis: str | Axis) -> Tensor:
        before, bins, _ = self._split(axis)
        return _mean(self._rows_of(z)[..., before : before + bins], (1,))

    def add(self, z: Tensor, axis: str | Axis, offset: Tensor) -> Tensor:
        before, _, after = self._split(axis)
        return (self._rows_of(z) + F.pad(offset, (before, after)).unsqueeze(1)).reshape(z.shape)

    def roll(self, z: Tensor, axis: str | Axis, by: int) -> Tensor:
        before, own, after = torch.split(self._rows_of(z), list(self._split(axis)), -1)
        return torch.cat([before, own.roll(by, -1), after], -1).reshape(z.shape)

    def _rows_of(self, z: Tensor) -> Tensor:
        return self._check(z).reshape(z.shape[0], self.rows, self.dim // self.rows)

    def _split(self, axis: str | Axis) -> tuple[int, int, int]:
        """Columns before the block of `axis`, in it, and after it."""
        place = self._place(axis)
        before, after = (sum(own.bins for own in side) for side in (self.axes[:place], self.axes[place + 1 :]))
        return before, self.axes[place].bins, after


def layout_from_dict(plain: dict[str, Any]) -> Layout:
    """The layout that `to_dict` described."""
    kind = plain.get("kind")
    if kind == Flat.kind:
        return Flat(plain["dim"])
    axes = [Axis.from_dict(axis) for axis in plain.get("axes", ())]
    if kind == Table.kind:
        return Table(plain["content"], *axes)
    for layout in (Joint, Concatenated):
        if kind == layout.kind:
            return layout(plain["content"], axes)
    raise DuetError(f"no layout {kind!r}; there are flat, table, joint, concatenated")


def _rows(dim: int, columns: int) -> int:
    if dim < columns or dim % columns:
        near = [n for n in (dim // columns * columns, (dim // columns + 1) * columns) if n]
        where = f"the nearest that do: {near}; change dim, or the bins"
        raise DuetError(f"{dim} features do not divide into {columns} columns; {where}")
    return dim // columns


# Sums and means of half-precision features are taken and returned in float32.
def _sum(z: Tensor, dim: int) -> Tensor:
    return z.sum(dim, dtype=torch.promote_types(z.dtype, torch.float32))


def _mean(z: Tensor, dims: tuple[int, ...]) -> Tensor:
    return z.mean(dims, dtype=torch.promote_types(z.dtype, torch.float32))


def _check_count(what: str, count: int) -> None:
    if count < 1:
        raise DuetError(f"a layout needs at least 1 of its {what}, not {count}")
