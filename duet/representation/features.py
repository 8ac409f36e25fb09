"""The features of a batch of images, with everything that can be read off them and done to them."""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from .action import act, recover, shift
from .file import load_features, save_features
from .fitted import FittedAction
from .layout import Axis, Layout
from .target import Estimate

ActionKind = Literal["prescribed", "fitted"]


@dataclass(frozen=True)
class Representation:
    """Features `flat` (B, D) in a layout; `fitted` holds the fitted action of every group, by name.

    `relative` says that the model was trained on differences: recovered g then have no common origin.
    """

    flat: Tensor
    layout: Layout
    fitted: Mapping[str, FittedAction] = field(default_factory=dict)
    relative: bool = False

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

    @property
    def content(self) -> Tensor:
        """What does not depend on g: (B, C)."""
        return self.layout.content(self.flat)

    def marginal(self, axis: str | Axis | None = None) -> Tensor:
        """P(g|x) over the bins of an axis: (B, bins)."""
        return self.layout.group_logits(self.flat, self.find(axis)).softmax(dim=1)

    def recover(self, axis: str | Axis | None = None) -> Estimate:
        """g of every image and its spread, both in units of g."""
        return recover(self.flat, self.layout, self.find(axis))

    def act(
        self, axis: str | Axis | None = None, *, to: float | Tensor, action: ActionKind = "prescribed"
    ) -> Representation:
        """The features as if the images had the element `to`."""
        if self.relative:
            raise ValueError("this model knows differences only, so there is no absolute element to go to; use shift")
        own = self.find(axis)
        if action == "prescribed":
            return self._with(act(self.flat, self.layout, own, to))
        by = torch.as_tensor(to, dtype=self.flat.dtype, device=self.flat.device) - self.recover(own).g
        return self.shift(own, by=by, action=action)

    def shift(
        self, axis: str | Axis | None = None, *, by: float | Tensor, action: ActionKind = "prescribed"
    ) -> Representation:
        """The features as if the images were transformed by `by` more; "fitted" serves models without a table too."""
        if action == "prescribed":
            return self._with(shift(self.flat, self.layout, self.find(axis), by))
        if action != "fitted":
            raise ValueError(f"action must be 'prescribed' or 'fitted', not {action!r}")
        known = ", ".join(self.fitted) or "none"
        if axis is None and len(self.fitted) > 1:
            raise ValueError(f"say which axis; this model has fitted actions of {known}")
        name = axis.name if isinstance(axis, Axis) else axis or next(iter(self.fitted), "")
        if name not in self.fitted:
            raise ValueError(f"no fitted action of {name!r}; this model has {known}")
        steps = torch.as_tensor(by, dtype=self.flat.dtype, device=self.flat.device).expand(len(self.flat))
        return self._with(self.fitted[name](self.flat, steps))

    def to(self, *args: Any, **kwargs: Any) -> Representation:
        """The features on another device or in another precision; the fitted actions follow to the device."""
        flat = self.flat.to(*args, **kwargs)
        fitted = {name: _on_device(action, flat.device) for name, action in self.fitted.items()}
        return Representation(flat, self.layout, fitted, self.relative)

    def numpy(self) -> NDArray[Any]:
        """The flat features as a NumPy array (B, D); half precision that NumPy lacks becomes float32."""
        flat = self.flat.detach().cpu()
        return (flat.float() if flat.dtype == torch.bfloat16 else flat).numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write features, layout and fitted actions to one safetensors file, all of it or nothing."""
        save_features(path, self.flat, self.layout, self.fitted, self.relative)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Representation:
        """The representation that `save` wrote, on the CPU."""
        return cls(*load_features(path))

    def find(self, axis: str | Axis | None = None) -> Axis:
        """The axis of that name; the only one when no name is given."""
        if axis is None:
            if len(self.layout.axes) != 1:
                names = ", ".join(own.name for own in self.layout.axes) or "none"
                raise ValueError(f"say which axis; this model has {names}")
            return self.layout.axes[0]
        return self.layout.find(axis)

    def _with(self, flat: Tensor) -> Representation:
        return Representation(flat, self.layout, self.fitted, self.relative)


def _on_device(action: FittedAction, device: torch.device) -> FittedAction:
    return action if action.mean.device == device else copy.deepcopy(action).to(device)
