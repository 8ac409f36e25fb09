"""Does T_g do to features what tau_g does to images? The paper's map, and one normalised error with its guard."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..groups import Group
from ..representation import Axis, FittedAction, Layout, shift
from .context import Context, Sweep
from .element import separation
from .result import Array, Result

BINS = 8  # for features without a table: what counts as near the diagonal, as in the paper's tables
CHUNK = 64_000_000  # numbers of moved features held at a time

Orbit = Callable[[Tensor], Tensor]
"""T_g f(x) for every g of a grid: (N,D) -> (n,N,D)."""


def map_equivariance(context: Context) -> Result:
    """Mean |f(tau_g1 x) - T_g2 f(x)|^2 over a grid of g1 (rows) and g2 (columns), on z and on the group logits."""
    subject, group = context.subject, context.group
    axis = subject.axis(group)
    g, true_elements = grid(context)
    rows = g[true_elements]
    sweep = context.sweep(group, g)
    window = 1 / (axis.bins if axis else BINS)
    scalars: dict[str, float] = {}
    arrays: dict[str, Array] = {"g": g.numpy()}
    orbits = {"fitted": fitted_orbit(context.action, g - group.identity)}
    if axis is not None:
        orbits = {"prescribed": prescribed_orbit(subject.layout, axis, g, group, subject.relative)} | orbits
    moved = float((sweep.z - sweep.base)[true_elements].square().sum(2).mean())
    for kind, orbit in orbits.items():
        for where, table in distance_maps(sweep, orbit, subject.layout, axis).items():
            suffix = ("_logits" if where == "logits" else "") + ("_fitted" if kind == "fitted" else "")
            observed = table[true_elements][:, true_elements]
            near = row_minimum(observed, rows)
            scalars[f"row_minimum_within_one_bin{suffix}"] = share_within(near, rows, group.cyclic, window)
            scalars[f"diagonal_contrast{suffix}"] = diagonal_contrast(observed)
            arrays[f"map{suffix}"] = table.float().numpy()
            arrays[f"row_minimum{suffix}"] = near.numpy()
            if where == "z":
                scalars[f"error_{kind}"] = float(observed.diagonal().mean()) / moved if moved > 0 else math.nan
    apart = mean_square_distance(sweep.base)
    scalars["sensitivity"] = moved / apart if apart > 0 else 0.0
    beside = separation(rows.unsqueeze(1), rows.unsqueeze(0), group.cyclic).abs() <= window + 1e-6
    scalars["chance_row_minimum"] = float(beside.double().mean())
    arrays["true_elements"] = rows.numpy()
    provenance = {**context.provenance(), "unit": group.unit, "span": list(group.span), "cyclic": group.cyclic}
    return Result("equivariance", scalars, arrays, {**provenance, "bins": round(1 / window)})


def distance_maps(sweep: Sweep, orbit: Orbit, layout: Layout, axis: Axis | None) -> dict[str, Tensor]:
    """The maps (n,m) on "z" and, where there is a table, on its "logits"; images go through a chunk at a time."""
    n, images, dim = sweep.z.shape
    totals: dict[str, Tensor] = {}
    for rows in torch.split(torch.arange(images), max(1, CHUNK // (2 * n * dim))):
        reached, moved = sweep.z[:, rows], orbit(sweep.base[rows])
        pairs = {"z": (reached, moved)}
        if axis is not None:
            pairs["logits"] = (_logits(reached, layout, axis), _logits(moved, layout, axis))
        for where, (left, right) in pairs.items():
            part = distance_map(left, right) * (len(rows) / images)
            totals[where] = totals[where] + part if where in totals else part
    return totals


def distance_map(left: Tensor, right: Tensor) -> Tensor:
    """mean over N of |left_i - right_j|^2 = |a|^2 + |b|^2 - 2 ab: (n,N,D), (m,N,D) -> (n,m), in float64."""
    # Around a common centre the three terms are not much larger than their sum, so float32 products are enough.
    centre = left.mean(0)
    a, b = ((side - centre).flatten(1) for side in (left, right))
    squares = a.square().sum(1, dtype=torch.float64).unsqueeze(1) + b.square().sum(1, dtype=torch.float64)
    return (squares - 2 * (a @ b.T).double()).clamp(min=0) / left.shape[1]


def prescribed_orbit(layout: Layout, axis: Axis, g: Tensor, group: Group, relative: bool = False) -> Orbit:
    """The paper's T at every g: to the absolute element; with a relative reference by g - identity from where it is."""
    if relative:
        return lambda z: torch.stack([shift(z, layout, axis, float(by)) for by in g - group.identity])
    wanted = axis.target.log_masses(g, axis.bins)  # once for every g, not for every image and g
    wanted = wanted - wanted.mean(1, keepdim=True)

    def orbit(z: Tensor) -> Tensor:
        logits = layout.group_logits(z, axis)
        level = layout.add(z, axis, logits.mean(1, keepdim=True) - logits)
        return torch.stack([layout.add(level, axis, offset.expand_as(logits)) for offset in wanted]).to(z.dtype)

    return orbit


def fitted_orbit(action: FittedAction, by: Tensor) -> Orbit:
    """The fitted T of every step `by`, in single precision: the fit needs more, its use does not."""
    single = copy.deepcopy(action).float()
    return lambda z: torch.stack([single(z, float(step)) for step in by])


def grid(context: Context) -> tuple[Tensor, Tensor]:
    """The grid of g, and which of it are elements that training draws: all of a continuous group's: (n,), (k,)."""
    group = context.group
    if group.elements is None:
        g = context.elements(group)
        return g, torch.arange(len(g))
    n = context.sizes.sweep
    between = torch.arange(n) / n if group.cyclic else torch.linspace(0, 1, n)
    g = torch.unique(torch.cat([between, torch.tensor(group.elements)]))
    return g, torch.searchsorted(g, torch.tensor(sorted(group.elements)))


def row_minimum(table: Tensor, g: Tensor) -> Tensor:
    """The g2 at which every row of a map over (g, g) is smallest: (n,n), (n,) -> (n,)."""
    return g[table.argmin(1)]


def share_within(found: Tensor, true: Tensor, cyclic: bool, window: float) -> float:
    """Share of found elements at most `window` from the true ones: (n,), (n,) -> number."""
    return float((separation(found, true, cyclic).abs() <= window + 1e-6).double().mean())


def diagonal_contrast(table: Tensor) -> float:
    """1 - mean of the diagonal / mean of the map: 0 when the diagonal is like the rest, 1 when it is 0: (n,n)."""
    return float(1 - table.diagonal().mean() / table.mean()) if table.mean() > 0 else 0.0


def mean_square_distance(z: Tensor) -> float:
    """E |z - z'|^2 over two different rows, twice the total variance: (N,D) -> number."""
    return float(2 * z.double().var(0).sum()) if len(z) > 1 else 0.0


def _logits(z: Tensor, layout: Layout, axis: Axis) -> Tensor:
    n, images, dim = z.shape
    return layout.group_logits(z.reshape(n * images, dim), axis).reshape(n, images, axis.bins)
