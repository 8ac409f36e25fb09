"""How well the element g of a transformed image can be read: off the table, and by a linear probe of any features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..domain import Topology, as_domain
from ..error import DuetError
from ..groups import Group
from ..representation import recover
from ..representation.moment import standardise
from ..unit import in_unit, unit_name
from .context import Context, Sweep
from .element import r_squared, raw_error
from .evaluation import Evaluation, Measure, register_evaluation
from .result import Array, Result
from .subject import axis_of
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6  # images whose whole P(g|x) is kept for the figure
CORNERS = {"zero": "black corners", "circle": "seen through a disc"}


@register_evaluation
class Recovery(Evaluation):
    """True against recovered g of held-out images over a sweep of g; each measure beside the best constant answer."""

    name = "recovery"
    order = 20
    title = "Recovery"
    question = "How well can the transformation's parameter be read off the features?"
    shown = (
        *("accuracy", "median_error_*", "median_difference_error_*", "probe_median_error_*"),
        *("content_probe_median_error_*", "constant_median_error_*", "r2", "within_one_spread"),
    )
    words = {
        "content_probe": "linear probe of the content",
        "probe": "linear probe",
        "constant": "ignoring the image",
        "r2": "R²",
        "circle": "through a disc",
        "zero": "with black corners",
        "degrees": "degrees",
    }
    captions = {
        "recovery": "Each column holds the images of one true value, shaded where the recovered values lie; "
        "on the dashed line they are right.",
        "probe": "The same for a linear probe that was trained on the true values. From the content it should fail.",
        "marginals": "P(g|x) of a few test images; the orange line is the truth.",
    }

    def measure(self, context: Context) -> Result:
        """The read-out and the probes, under the group as it was trained and as it can be shown otherwise."""
        scalars: dict[str, float] = {}
        arrays: dict[str, Array] = {}
        for name, group in {"": context.group, **context.group.variants()}.items():
            suffix = f"_{name}" if name else ""
            sweep = context.sweep(group)
            for numbers, tables in (_read_out(context, sweep), _probe(context, sweep)):
                scalars |= {f"{key}{suffix}": value for key, value in numbers.items()}
                arrays |= {f"{key}{suffix}": value for key, value in tables.items()}
            if not suffix:
                scalars |= _without_looking(sweep)
        arrays["g"] = sweep.g.cpu().numpy()
        facts = {"swept_images": len(context.images), "relative": context.subject.relative}
        return Result("recovery", scalars, arrays, facts)

    def summary(self, result: Result) -> dict[str, str]:
        """The read-out, through a disc too, and the probes."""
        unit = unit_name(result.provenance["unit"])
        rows = {
            "accuracy": "element read off without a head, accuracy",
            f"median_error_{unit}": f"recovered without a head, median error ({unit})",
            f"median_error_{unit}_circle": "  seen through a disc",
            f"probe_median_error_{unit}": f"by a linear probe, median error ({unit})",
            f"content_probe_median_error_{unit}": "  from the content alone (it should not know)",
        }
        return {key: text for key, text in rows.items() if key in result.scalars}

    def measures(self, result: Result) -> list[Measure]:
        """The read-out and the probe."""
        s, p = result.scalars, result.provenance
        unit = unit_name(p["unit"])
        beside = f"ignoring the image: {in_unit(s[f'constant_median_error_{unit}'], p['unit'])}"
        relative = bool(p.get("relative"))
        kind = "median_difference_error" if relative else "median_error"
        entries = {
            f"Read off: {p['title']}{' between views' * relative}, median error": f"{kind}_{unit}",
            f"Linear probe: {p['title']}, median error": f"probe_median_error_{unit}",
        }
        return [
            Measure(text, in_unit(s[key], p["unit"]), s[key], beside, False, unit)
            for text, key in entries.items()
            if key in s
        ]

    def figures(self, result: Result) -> dict[str, Figure]:
        """Recovered against true, the probes, and a few P(g|x)."""
        found = {"recovery": draw_recovery, "probe": draw_probe, "marginals": draw_marginals}
        if "shown_marginal" not in result.arrays:
            found = {"probe": draw_probe}
        return {name: draw(result) for name, draw in found.items()}

    def sentence(self, result: Result) -> str:
        """How far off the reading is, beside an answer that ignores the image."""
        s, p = result.scalars, result.provenance
        unit, what = unit_name(p["unit"]), p["title"]
        blind = in_unit(s[f"constant_median_error_{unit}"], p["unit"])
        if "accuracy" in s:
            return f"Read off P(g|x) without any head, the {what} is right for {percent(s['accuracy'])} of the images."
        if p.get("relative") and f"median_difference_error_{unit}" in s:
            found = in_unit(s[f"median_difference_error_{unit}"], p["unit"])
            return f"The {what} between two views of an image is read off to within {found} (median), without any head."
        if f"median_error_{unit}" not in s:
            found = in_unit(s[f"probe_median_error_{unit}"], p["unit"])
            return (
                f"The features have no columns for the {what}; a linear probe that is trained on labels reads it to "
                f"within {found} (median), where ignoring the image is off by {blind}."
            )
        found = in_unit(s[f"median_error_{unit}"], p["unit"])
        text = f"Read off P(g|x) without any head, the {what} is off by {found} (median)"
        if f"median_error_{unit}_circle" in s:
            hidden = in_unit(s[f"median_error_{unit}_circle"], p["unit"])
            text += f", and by {hidden} through a disc that hides the telling corners"
        return f"{text}; an answer that ignores the image is off by {blind}."


def errors(true: Tensor, found: Tensor, group: Group, prefix: str = "") -> dict[str, float]:
    """R^2, median and mean error in the raw unit and, for a finite group, accuracy of the nearest element.

    true and found are elements g, (n,) each.
    """
    error = raw_error(true, found, group)
    unit = unit_name(group.unit)
    scalars = {
        f"{prefix}r2": r_squared(true, found, group.domain),
        f"{prefix}median_error_{unit}": float(np.median(error.cpu().numpy())),
        f"{prefix}mean_error_{unit}": float(error.mean()),
    }
    if group.elements is not None:
        elements = torch.tensor(group.elements, device=found.device)
        hits = group.domain.nearest(found, elements) == group.domain.nearest(true, elements)
        scalars[f"{prefix}accuracy"] = float(hits.float().mean())
    return scalars


def difference_errors(g: Tensor, found: Tensor, group: Group, generator: torch.Generator) -> dict[str, float]:
    """Errors of found_b - found_a as a measure of b - a, one random b for every image and a: (n,), (n,N)."""
    n, images = found.shape
    other = (torch.arange(n).unsqueeze(1) + torch.randint(1, n, (n, images), generator=generator)).remainder(n)
    other = other.to(found.device)
    low, high = group.span
    if group.cyclic:
        wanted = g[other] - g.unsqueeze(1)
        error = group.domain.distance(found.gather(0, other) - found, wanted) * abs(high - low)
    else:
        raw, raw_found = group.parameter(g), group.parameter(found)
        error = ((raw_found.gather(0, other) - raw_found) - (raw[other] - raw.unsqueeze(1))).abs()
    unit = unit_name(group.unit)
    return {
        f"median_difference_error_{unit}": float(np.median(error.cpu().numpy())),
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
    x, y = (_ranks(values.cpu().double()) for values in (a, b))
    x, y = x - x.mean(), y - y.mean()
    size = float((x.square().sum() * y.square().sum()).sqrt())
    return float((x * y).sum()) / size if size > 0 else 0.0


def linear_probe(z: Tensor, g: Tensor, z_test: Tensor, cyclic: Topology) -> Tensor:
    """g by ridge regression from standardised features, of (cos, sin) 2 pi g on the circle: (N,D), (N,), (n,D) -> (n,).

    The penalty is chosen by leave-one-out error.
    """
    from sklearn.linear_model import RidgeCV

    domain = as_domain(cyclic)
    x, x_test = (part.double().cpu().numpy() for part in standardise(z, z_test))
    model = RidgeCV(alphas=np.logspace(-2, 4, 7)).fit(x, domain.coordinates(g.double()).cpu().numpy())
    predicted = torch.from_numpy(model.predict(x_test).reshape(len(x_test), -1))
    return domain.from_coordinates(predicted).float()


def draw_recovery(result: Result) -> Figure:
    """Recovered against true element: every column the density of one element's images; both kinds of corners."""
    variants = [s for s in ("", "_circle", "_zero") if f"recovered{s}" in result.arrays]
    if not variants:
        raise DuetError("these features have no columns to recover from; draw_probe shows the linear probe")
    error = "median_difference_error_{}" if result.provenance["relative"] else "median_error_{}"
    titles = [_corners(result, suffix) if len(variants) > 1 else "" for suffix in variants]
    return _scatter(result, [(f"recovered{s}", f"{error}{s}", t) for s, t in zip(variants, titles, strict=True)])


def draw_probe(result: Result) -> Figure:
    """The linear probe's element against the true one: from all features and, where they are apart, from content."""
    panels = [("probe", "probe_median_error_{}", "linear probe, all features")]
    if "content_probe" in result.arrays:
        panels.append(("content_probe", "content_probe_median_error_{}", "linear probe, content alone"))
    return _scatter(result, panels)


def draw_marginals(result: Result) -> Figure:
    """P(g|x) of a few test images of the recovery, each with its true element."""
    from .. import figure as draw

    if "shown_marginal" not in result.arrays:
        raise DuetError("these features have no columns, so there is no P(g|x) to draw")
    marginals, truth, facts = result.arrays["shown_marginal"], result.arrays["shown_g"], result.provenance
    figure = draw.new_figure(1.75 * len(truth) + 0.5, 2.3)
    axes = figure.subplots(1, len(truth), sharey=True, squeeze=False)[0]
    for axis, masses, g in zip(axes, marginals, truth, strict=True):
        value = float(draw.raw(g, facts))
        draw.draw_bars(axis, masses, facts)
        axis.axvline(value, color=draw.ORANGE, lw=2.5)
        axis.set_title(f"true: {in_unit(value, facts['unit'], digits=0)}", fontsize=draw.FONT)
        draw.element_axis(axis.xaxis, facts, ticks=3)
    axes[0].set_ylabel("$P(g\\,|\\,x)$")
    figure.supxlabel(draw.element_label(facts), fontsize=draw.FONT + 1)
    return figure


def _scatter(result: Result, panels: Sequence[tuple[str, str, str]]) -> Figure:
    from .. import figure as draw

    facts = result.provenance
    figure = draw.new_figure(3.4 * len(panels) + 0.9, 3.6)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    unit = unit_name(facts["unit"])
    columns = draw.edges(draw.raw(result.arrays["g"], facts))
    rows = draw.raw(np.linspace(0, 1, 73), facts)
    shade = None
    for axis, (key, error, title) in zip(axes, panels, strict=True):
        found = draw.raw(result.arrays[key], facts)
        density = np.stack([np.histogram(images, np.sort(rows))[0] / len(images) for images in found], 1)
        shade = axis.pcolormesh(columns, np.sort(rows), density, cmap="Blues", vmin=0, rasterized=True)
        axis.plot(rows[[0, -1]], rows[[0, -1]], color=draw.ORANGE, lw=1.2, ls="--")
        wrong = in_unit(result.scalars[error.format(unit)], facts["unit"])
        axis.set_title(f"{title}\nmedian error {wrong}".strip(), fontsize=draw.FONT)
        axis.set_aspect("equal")
        axis.set_xlabel(f"true {draw.element_label(facts)}")
        axis.set_xlim(min(columns), max(columns))
        draw.element_axis(axis.xaxis, facts)
        draw.element_axis(axis.yaxis, facts)
    axes[0].set_ylabel(f"recovered {draw.element_label(facts)}")
    figure.colorbar(shade, ax=list(axes), shrink=0.8, label="share of the column's images")  # type: ignore[arg-type]
    return figure


def _corners(result: Result, suffix: str) -> str:
    return CORNERS.get(suffix.removeprefix("_") or str(result.provenance.get("corners")), "")


def _read_out(context: Context, sweep: Sweep) -> tuple[dict[str, float], dict[str, Array]]:
    """DUET's own reading, without any head; nothing where the features have no columns for the group, or too few."""
    axis, group = axis_of(context.subject, sweep.group), sweep.group
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
        found = group.domain.wrap(found - origin + group.identity)
    else:
        scalars |= errors(truth, found, group)
        scalars |= calibration(group.domain.distance(found, truth), estimate.spread)
    shown = torch.linspace(0, n - 1, min(SHOWN, n)).round().long()
    # Image k at the k-th of a few elements, evenly apart.
    few = sweep.z[shown, torch.arange(len(shown)) % images]
    return scalars, {
        "recovered": found.reshape(n, images).cpu().numpy(),
        "spread": estimate.spread.reshape(n, images).float().cpu().numpy(),
        "shown_g": sweep.g[shown].cpu().numpy(),
        "shown_marginal": layout.group_logits(few, axis).softmax(1).cpu().numpy(),
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
    test, truth = sweep.z.reshape(n * count, dim), sweep.g.cpu().repeat_interleave(count)
    found = linear_probe(z, g, test, group.domain)
    scalars = errors(truth, found, group, "probe_")
    arrays = {"probe": found.reshape(n, count).numpy()}
    if layout.axes:
        from_content = linear_probe(layout.content(z), g, layout.content(test), group.domain)
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
