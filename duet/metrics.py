"""EquivarianceSpectrum: what any encoder knows of a group, as a torchmetrics metric for trainers of other people's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from .device import widest
from .domain import Circle
from .error import DuetError
from .groups import Group, find_group
from .representation import Spectrum
from .representation.capacity import dimensions
from .representation.views import gather_views

HELD_OUT = 4  # every fourth image is not fitted on: the error of a difference is measured there
CHUNK = 4096  # pairs of views at a time


class EquivarianceSpectrum(Metric):
    """The spectrum of features under a group: invariant dimensions, turning planes, error of a difference.

    Update it with features (B, D), the id of the image that each is a view of (B,), and the element g (B,) by which
    that view was transformed, in any order and in any process. Draw g uniformly and independently a view
    (`group.sample`): otherwise harmonics leak into each other. Images may have unequal numbers of views; as many are
    taken of each as the one with the fewest has, at least two.

    `compute` gives numbers: `capacity_K` of every harmonic (see `Spectrum`), `invariant_dimensions` (K = 0),
    `equivariant_planes` and `equivariant_dimensions` of all others, and `median_difference_error`, in units of g, of
    g_2 - g_1 between two views of images that nothing was fitted on, for rotations also in degrees; for finite groups
    `difference_accuracy`. `constant_difference_error` is what guessing gives.

    `group`: a group or its name, if there is one; `elements`: the g values of a finite group that has no name.
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    features: list[Tensor]
    ids: list[Tensor]
    g: list[Tensor]

    def __init__(
        self,
        group: str | Group | None = None,
        *,
        harmonics: int = 4,
        elements: Sequence[float] | None = None,
        ridge: float = 1e-6,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.group = None if group is None else find_group(group)
        if self.group is not None:
            check_circle(self.group)
            if elements is not None:
                raise DuetError(f"{self.group.name} has its own elements; leave out elements=, or the group")
            elements = self.group.elements
        if harmonics < 1:
            raise DuetError(f"harmonics start at 1; got {harmonics}")
        if ridge < 0:
            raise DuetError(f"the ridge must not be negative; it is {ridge}")
        self.harmonics, self.ridge = harmonics, ridge
        self.elements = None if elements is None else tuple(float(e) for e in elements)
        for name in ("features", "ids", "g"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, features: Tensor, ids: Tensor, g: Tensor) -> None:
        """Views that were seen: (B, D), whole numbers (B,), elements in [0, 1] (B,)."""
        _check_views(features, ids, g)
        if self.features and self.features[0].shape[1] != features.shape[1]:
            raise DuetError(f"{features.shape[1]} features, and {self.features[0].shape[1]} in the views before")
        self.features.append(features.detach().float() if features.dtype != torch.float64 else features.detach())
        self.ids.append(ids.detach().long())
        self.g.append(g.detach().to(widest(g)))

    def compute(self) -> dict[str, float]:
        """The scores of all views so far, in all processes."""
        if not len(self.ids):
            raise DuetError("no views yet; call update(features, ids, g) first")
        features, ids, g = (dim_zero_cat(state) for state in (self.features, self.ids, self.g))
        if features.device.type == "mps":  # which has no float64
            features, ids, g = features.cpu(), ids.cpu(), g.cpu()
        z, g, _ = gather_views(features, ids, g.double())
        held = torch.arange(len(z), device=z.device) % HELD_OUT == HELD_OUT - 1
        spectrum = Spectrum.fit(z[~held], g[~held], self.harmonics, self.elements, self.ridge)
        return {**dimensions(spectrum), **self._difference_errors(spectrum, z[held], g[held])}

    def _difference_errors(self, spectrum: Spectrum, z: Tensor, g: Tensor) -> dict[str, float]:
        """Of neighbouring views (N, V, D) at g (N, V) of images that are new to the spectrum."""
        domain = Circle()
        first, second, truth = z[:, :-1].flatten(0, 1), z[:, 1:].flatten(0, 1), (g[:, 1:] - g[:, :-1]).flatten()
        pairs = zip(torch.split(first, CHUNK), torch.split(second, CHUNK), strict=True)
        found = torch.cat([spectrum.difference(a, b).g.to(truth) for a, b in pairs])
        error = domain.distance(found, truth)
        scores = {"median_difference_error": float(error.quantile(0.5))}
        if self.elements is None:
            scores["constant_difference_error"] = 0.25
        else:
            steps = domain.differences(self.elements)
            scores["constant_difference_error"] = float(domain.distance(steps, torch.zeros(())).quantile(0.5))
            scores["difference_accuracy"] = float((error < 0.5 / len(self.elements)).double().mean())
        if self.group is not None and self.group.unit == "degrees":
            low, high = self.group.span
            errors = [key for key in scores if key.endswith("_error")]
            scores |= {f"{key}_degrees": abs(high - low) * scores[key] for key in errors}
        return scores


def check_circle(group: Group) -> None:
    """Refuse a group that has no spectrum."""
    if not isinstance(group.domain, Circle):
        raise DuetError(f"{group.name} has no spectrum: its elements lie on an interval, not around a circle")


def _check_views(features: Tensor, ids: Tensor, g: Tensor) -> None:
    if features.ndim != 2 or not features.is_floating_point():
        raise DuetError(f"features are floating numbers (B, D), not {features.dtype} {tuple(features.shape)}")
    for name, value in (("ids", ids), ("g", g)):
        if value.shape != features.shape[:1]:
            raise DuetError(f"{name} must be ({len(features)},), one number a view; they are {tuple(value.shape)}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise DuetError(f"ids are whole numbers, one an image, not {ids.dtype}")
    if not g.is_floating_point() or not bool(((g >= -1e-6) & (g <= 1 + 1e-6)).all()):
        raise DuetError("g must be floating numbers in [0, 1] with no NaN; map raw values with group.from_parameter")
    if not bool(torch.isfinite(features).all()):
        raise DuetError("the features hold NaN or infinity")
