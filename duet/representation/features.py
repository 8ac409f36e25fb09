"""The features of a batch of images, with everything that can be read off them and done to them."""

from __future__ import annotations

import copy
import math
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ..error import DuetError
from ..unit import in_unit, unit_name
from .action import Action, per_sample
from .layout import Axis, Layout
from .prescribed import Prescribed, act, recover
from .storage import Actions, RawScale, load_features, save_features
from .target import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Neighbours(NamedTuple):
    """For every image its nearest others: their places (B, k), nearest first, and their cosines (B, k)."""

    place: Tensor
    cosine: Tensor


@dataclass(frozen=True)
class Representation:
    """Features `flat` (B, D) in a layout; `actions` holds the actions of every group, by group and by kind.

    `relative` says that the model was trained on differences: recovered g then have no common origin. `scales` says for
    every group which raw values g = 0 and g = 1 stand for, and in what unit.
    """

    flat: Tensor
    layout: Layout
    actions: Actions = field(default_factory=dict)
    relative: bool = False
    scales: Mapping[str, RawScale] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, rows: int | slice | Sequence[int] | Tensor | Any) -> Representation:
        """Some of the images, by number, slice, list of numbers or mask; a single number keeps the batch axis."""
        if hasattr(rows, "__index__") and not getattr(rows, "ndim", 0):
            number = range(len(self))[operator.index(rows)]  # beyond the end this raises, which also ends a loop
            return self._with(self.flat[number : number + 1])
        chosen = rows if isinstance(rows, slice) else torch.as_tensor(rows, device=self.flat.device)
        if isinstance(chosen, Tensor):
            if chosen.ndim != 1:
                raise IndexError(f"images are chosen by one number, a slice or a list, not by {rows!r}")
            chosen = chosen if chosen.dtype == torch.bool else chosen.long()
        return self._with(self.flat[chosen])

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis.name}: {axis.bins} bins" for axis in self.layout.axes)
        return f"Representation({len(self)} x {self.layout.dim}, {self.layout.kind}{f' ({axes})' if axes else ''})"

    @property
    def content(self) -> Tensor:
        """What does not depend on g: (B, C)."""
        return self.layout.content(self.flat)

    def marginal(self, axis: str | Axis | None = None) -> Tensor:
        """P(g|x) over the bins of an axis: (B, bins)."""
        return self.layout.group_logits(self.flat, self.find(axis)).softmax(dim=1)

    def recover(self, axis: str | Axis | None = None, among: Tensor | None = None) -> Estimate:
        """g of every image and its spread, both in units of g; with `among` (K,) the best of these elements."""
        return recover(self.flat, self.layout, self.find(axis), among)

    def act(
        self,
        axis: str | Axis | None = None,
        *,
        to: float | Tensor | None = None,
        action: str = "prescribed",
        **value: float | Tensor,
    ) -> Representation:
        """The features as if the images had the element `to`, or a value in the group's unit, such as degrees=30."""
        if self.relative:
            raise DuetError("this model knows differences only, so there is no absolute element to go to; use shift")
        own = self.find(axis)
        goal = self._g(own.name, "to", to, value)
        if not goal.is_meta and not bool(((goal >= -1e-6) & (goal <= 1 + 1e-6)).all()):
            raise DuetError(f"to counts in g, from 0 to 1; of {own.name} it reaches {float(goal.abs().max()):g}")
        if action == Prescribed.name:
            return self._with(act(self.flat, self.layout, own, goal))
        return self._moved(own.name, action, goal - self.recover(own).g)

    def shift(
        self,
        axis: str | Axis | None = None,
        *,
        by: float | Tensor | None = None,
        action: str = "prescribed",
        **amount: float | Tensor,
    ) -> Representation:
        """The features as if the images were transformed by `by` more, or by an amount such as degrees=90.

        Actions that were fitted serve models without a table too.
        """
        name = self._group(axis, action)
        step = self._g(name, "by", by, amount)
        if not step.is_meta and not bool((step.abs() <= 1 + 1e-6).all()):  # written so that NaN fails too
            raise DuetError(
                f"by counts in g and is at most 1, once through all of {name}; it is {float(step.abs().max()):g}"
            )
        return self._moved(name, action, step)

    def nearest(self, k: int = 5, space: Literal["flat", "content"] = "flat") -> Neighbours:
        """The k images of this batch that lie nearest to each, by the cosine of all features or of the content."""
        if space not in ("flat", "content"):
            raise DuetError(f"neighbours are sought by 'flat' or 'content', not {space!r}")
        if not 0 < k < len(self):
            raise DuetError(f"{len(self)} images have 1 to {len(self) - 1} neighbours each, not {k}")
        z = F.normalize(self.flat if space == "flat" else self.content, dim=1)
        cosine = (z @ z.T).fill_diagonal_(-torch.inf)
        found = cosine.topk(k, dim=1)
        return Neighbours(found.indices, found.values)

    def plot(self, image: int = 0, axis: str | Axis | None = None) -> Figure:
        """P(g|x) of one image, with the recovered value; of a flat one none can be told."""
        from ..figure import draw_marginal

        own, one = self.find(axis), self[image]
        scale = self.scales.get(own.name, RawScale("", 0.0, 1.0))
        estimate = one.recover(own) if own.readable else None
        value, title = None, ""
        if estimate is not None:
            if not bool(own.flat(estimate.spread)[0]):
                value = scale.low + (scale.high - scale.low) * float(estimate.g[0])
            title = f"recovered: {in_unit(math.nan if value is None else value, scale.unit)}"
        masses = one.marginal(own)[0].detach().cpu().numpy()
        return draw_marginal(masses, (scale.low, scale.high), scale.unit, own.name, value, title)

    def to(self, *args: Any, **kwargs: Any) -> Representation:
        """The features on another device or in another precision; the actions follow to the device."""
        flat = self.flat.to(*args, **kwargs)
        actions = {
            name: {kind: _on_device(action, flat.device) for kind, action in own.items()}
            for name, own in self.actions.items()
        }
        return replace(self, flat=flat, actions=actions)

    def numpy(self) -> NDArray[Any]:
        """The flat features as a NumPy array (B, D); half precision that NumPy lacks becomes float32."""
        flat = self.flat.detach().cpu()
        return (flat.float() if flat.dtype == torch.bfloat16 else flat).numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write features, layout and actions to one safetensors file, all of it or nothing."""
        save_features(path, self.flat, self.layout, self.actions, self.relative, self.scales)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Representation:
        """The representation that `save` wrote, on the CPU."""
        return cls(*load_features(path))

    def find(self, axis: str | Axis | None = None) -> Axis:
        """The axis of that name; the only one when no name is given."""
        if axis is None:
            if len(self.layout.axes) != 1:
                names = ", ".join(own.name for own in self.layout.axes) or "none"
                raise DuetError(f"say which axis; this model has {names}")
            return self.layout.axes[0]
        return self.layout.find(axis)

    def action(self, kind: str, axis: str | Axis | None = None) -> Action:
        """The action of that kind on an axis: "prescribed" of every table, others as far as the model brings them."""
        if kind == Prescribed.name:
            return Prescribed(self.layout, self.find(axis), self.relative)
        name = self._group(axis, kind)
        if kind not in self.actions.get(name, {}):
            raise DuetError(f"no {kind} action of {name!r}; {self._known_actions()}")
        return self.actions[name][kind]

    def _moved(self, name: str, kind: str, by: Tensor) -> Representation:
        return self._with(self.action(kind, name).act(self.flat, by))

    def _group(self, axis: str | Axis | None, kind: str) -> str:
        """The name of the group that is meant; models without a table have groups, and no axes."""
        if axis is not None:
            return axis.name if isinstance(axis, Axis) else axis
        names = [own.name for own in self.layout.axes]
        if kind != Prescribed.name:
            names = [name for name, held in self.actions.items() if kind in held]
            if not names:
                raise DuetError(f"no {kind} action; {self._known_actions()}")
        if len(names) != 1:
            what = "" if kind == Prescribed.name else f" {kind} actions of"
            raise DuetError(f"say which axis; this model has{what} {', '.join(names) or 'none'}")
        return names[0]

    def _known_actions(self) -> str:
        own = {Prescribed.name} if self.layout.axes else set()
        return f"this model has {', '.join(sorted(own.union(*self.actions.values()))) or 'none'}"

    def _g(self, name: str, word: str, g: float | Tensor | None, value: Mapping[str, float | Tensor]) -> Tensor:
        """(B,) in units of g: as given, or from a value in the group's unit."""
        scale = self.scales.get(name)
        unit = None if scale is None else unit_name(scale.unit)
        if (g is None) == (not value) or len(value) > 1 or (value and next(iter(value)) != unit):
            told = f"{word}=" + (f" (in g) or {unit}=" if unit not in (None, "g") else "")
            raise DuetError(f"say how far with {told}, one of them" + (f"; not {', '.join(value)}=" if value else ""))
        if g is None:
            assert scale is not None
            g = next(iter(value.values()))
            g = (g - scale.low if word == "to" else g) / (scale.high - scale.low)
        return per_sample(g, self.flat)

    def _with(self, flat: Tensor) -> Representation:
        return replace(self, flat=flat)


def _on_device(action: Action, device: torch.device) -> Action:
    if not isinstance(action, nn.Module) or all(own.device == device for own in action.buffers()):
        return action
    moved: Action = copy.deepcopy(action).to(device)
    return moved
