"""How well the element g of a transformed image can be read: off the table, and by a linear probe of any features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..groups import Group, rot360
from ..representation import recover
from .context import Context, Sweep
from .element import coordinates, from_coordinates, nearest_element, r_squared, raw_error, separation, unit_name
from .result import Array, Result

SHOWN = 6  # images whose whole P(g|x) is kept for the figure


def recover_elements(context: Context) -> Result:
    """True against recovered g of held-out images over a sweep of g; each measure beside the best constant answer."""
    scalars: dict[str, float] = {}
    arrays: dict[str, Array] = {}
    for group, suffix in _variants(context.group):
        sweep = context.sweep(group)
        for numbers, tables in (_read_out(context, sweep), _probe(context, sweep)):
            scalars |= {f"{key}{suffix}": value for key, value in numbers.items()}
            arrays |= {f"{key}{suffix}": value for key, value in tables.items()}
        if not suffix:
            scalars |= _without_looking(sweep)
    arrays["g"] = sweep.g.numpy()
    group = context.group
    provenance = {
        **context.provenance(),
        "unit": group.unit,
        "span": list(group.span),
        "cyclic": group.cyclic,
        "elements": None if group.elements is None else list(group.elements),
        "swept_images": len(context.images),
        "corners": getattr(group, "corners", None),
        "relative": context.subject.relative,
    }
    return Result("recovery", scalars, arrays, provenance)


def errors(true: Tensor, found: Tensor, group: Group, prefix: str = "") -> dict[str, float]:
    """R^2, median and mean error in the raw unit and, for a finite group, accuracy of the nearest element.

    true and found are elements g, (n,) each.
    """
    error = raw_error(true, found, group)
    unit = unit_name(group.unit)
    scalars = {
        f"{prefix}r2": r_squared(true, found, group.cyclic),
        f"{prefix}median_error_{unit}": float(np.median(error.numpy())),
        f"{prefix}mean_error_{unit}": float(error.mean()),
    }
    if group.elements is not None:
        elements = torch.tensor(group.elements)
        hits = nearest_element(found, elements, group.cyclic) == nearest_element(true, elements, group.cyclic)
        scalars[f"{prefix}accuracy"] = float(hits.float().mean())
    return scalars


def difference_errors(g: Tensor, found: Tensor, group: Group, generator: torch.Generator) -> dict[str, float]:
    """Errors of found_b - found_a as a measure of b - a, one random b for every image and a: (n,), (n,N)."""
    n, images = found.shape
    other = (torch.arange(n).unsqueeze(1) + torch.randint(1, n, (n, images), generator=generator)).remainder(n)
    low, high = group.span
    if group.cyclic:
        wanted = g[other] - g.unsqueeze(1)
        error = separation(found.gather(0, other) - found, wanted, True).abs() * abs(high - low)
    else:
        raw, raw_found = group.parameter(g), group.parameter(found)
        error = ((raw_found.gather(0, other) - raw_found) - (raw[other] - raw.unsqueeze(1))).abs()
    unit = unit_name(group.unit)
    return {
        f"median_difference_error_{unit}": float(np.median(error.numpy())),
        f"mean_difference_error_{unit}": float(error.mean()),
    }


def calibration(error: Tensor, spread: Tensor) -> dict[str, float]:
    """Does the spread say how large the error is? Both (n,), in one unit and not negative.

    `within_one_spread`: share of errors below the spread; 0.68 for a normal error of that spread.
    `spread_ratio`: root mean square error over root mean square spread; 1 when calibrated, below when too cautious.
    `spread_correlation`: rank correlation of the two; above 0 when the spread knows which answers to doubt.
    """
    return {
        "within_one_spread": float((error <= spread).float().mean()),
        "spread_ratio": float((error.square().mean() / spread.square().mean()).sqrt()),
        "spread_correlation": rank_correlation(error, spread),
    }


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's correlation, ties at their mean rank; 0 when one of them does not vary: (n,), (n,) -> number."""
    x, y = (_ranks(values.double()) for values in (a, b))
    x, y = x - x.mean(), y - y.mean()
    size = float((x.square().sum() * y.square().sum()).sqrt())
    return float((x * y).sum()) / size if size > 0 else 0.0


def linear_probe(z: Tensor, g: Tensor, z_test: Tensor, cyclic: bool) -> Tensor:
    """g by ridge regression from standardised features, of (cos, sin) 2 pi g on the circle: (N,D), (N,), (n,D) -> (n,).

    The penalty is chosen by leave-one-out error.
    """
    from sklearn.linear_model import RidgeCV

    mean, scale = z.mean(0), z.std(0)
    scale = torch.where(scale > 1e-6 * (mean.abs() + scale.max()), scale, 1.0)
    x, x_test = (((part - mean) / scale).double().numpy() for part in (z, z_test))
    model = RidgeCV(alphas=np.logspace(-2, 4, 7)).fit(x, coordinates(g.double(), cyclic).numpy())
    predicted = torch.from_numpy(model.predict(x_test).reshape(len(x_test), -1))
    return from_coordinates(predicted, cyclic).float()


def _variants(group: Group) -> Iterator[tuple[Group, str]]:
    """The group as it was trained; a rotation also with the other kind of corners, since black ones give it away."""
    yield group, ""
    if group.name == "rot360" and getattr(group, "corners", None) in ("zero", "circle"):
        other = rot360("circle" if group.corners == "zero" else "zero")  # type: ignore[attr-defined]
        yield other, f"_{other.corners}"


def _read_out(context: Context, sweep: Sweep) -> tuple[dict[str, float], dict[str, Array]]:
    """DUET's own reading, without any head; nothing where the features have no columns for the group, or too few."""
    axis, group = context.subject.axis(sweep.group), sweep.group
    if axis is None or not axis.readable:
        return {}, {}
    n, images, dim = sweep.z.shape
    layout = context.subject.layout
    estimate = recover(sweep.z.reshape(n * images, dim), layout, axis)
    truth, found = sweep.g.repeat_interleave(images), estimate.g.float()
    scalars = difference_errors(sweep.g, found.reshape(n, images), group, context.generator("differences"))
    if context.subject.relative:
        # No common origin: only differences have meaning, and what is kept is the difference to the untouched image.
        origin = recover(sweep.base, layout, axis).g.float().repeat(n)
        found = found - origin + group.identity
        found = found.remainder(1) if group.cyclic else found.clamp(0, 1)
    else:
        scalars |= errors(truth, found, group)
        scalars |= calibration(separation(found, truth, group.cyclic).abs(), estimate.spread)
    shown = torch.linspace(0, n - 1, min(SHOWN, n)).round().long()
    # Image k at the k-th of a few elements, evenly apart.
    few = sweep.z[shown, torch.arange(len(shown)) % images]
    return scalars, {
        "recovered": found.reshape(n, images).numpy(),
        "spread": estimate.spread.reshape(n, images).float().numpy(),
        "shown_g": sweep.g[shown].numpy(),
        "shown_marginal": layout.group_logits(few, axis).softmax(1).numpy(),
    }


def _probe(context: Context, sweep: Sweep) -> tuple[dict[str, float], dict[str, Array]]:
    """The linear probe from all features and, to see what leaks, from the content alone."""
    group, layout = sweep.group, context.subject.layout
    generator = context.generator("probe")
    images = context.probe_images
    rows = torch.arange(context.sizes.probe) % len(images)
    g = group.sample(len(rows), generator)
    parts = list(zip(torch.split(rows, 512), torch.split(g, 512), strict=True))
    label = f"{group.name} of training images"
    z = torch.cat([context.at(images[i], h, group) for i, h in context.track(parts, len(parts), label)])
    n, count, dim = sweep.z.shape
    test, truth = sweep.z.reshape(n * count, dim), sweep.g.repeat_interleave(count)
    found = linear_probe(z, g, test, group.cyclic)
    scalars = errors(truth, found, group, "probe_")
    arrays = {"probe": found.reshape(n, count).numpy()}
    if layout.axes:
        from_content = linear_probe(layout.content(z), g, layout.content(test), group.cyclic)
        scalars |= errors(truth, from_content, group, "content_probe_")
        arrays["content_probe"] = from_content.reshape(n, count).numpy()
    return scalars, arrays


def _without_looking(sweep: Sweep) -> dict[str, float]:
    """The errors of the best answer that ignores the image: on the circle any element, on the interval the median."""
    group = sweep.group
    constant = torch.full_like(sweep.g, group.identity) if group.cyclic else sweep.g.median().expand(len(sweep.g))
    found = errors(sweep.g, constant, group, "constant_")
    return {key: value for key, value in found.items() if not key.endswith("r2")}  # 0 or less by definition


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 0, equal values at their mean rank: (n,) -> (n,)."""
    _, inverse, counts = torch.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    mean_rank: Tensor = last - (counts.double() + 1) / 2
    return mean_rank[inverse]
