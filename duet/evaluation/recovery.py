"""How well the element g of a transformed image can be read: off the table, and by a linear probe of any features."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..groups import Group
from ..representation import Spectrum, recover
from ..unit import in_unit, unit_name
from .bootstrap import Bootstrap
from .context import Context, Orbit
from .element import errors, hits, raw_error
from .evaluation import Claim, Evaluation, register_evaluation
from .example import keep_examples
from .grid import orbit_centres
from .probe import SEEDS, probe_orbit, probe_shuffled
from .result import Array, Result
from .subject import axis_of
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6  # images whose whole P(g|x) is kept for the figure


@register_evaluation
class Recovery(Evaluation):
    """True against recovered g of held-out images over a sweep of g; each measure beside the best constant answer."""

    name = "recovery"
    order = 20
    title = "Recovery"
    question = "How well can the transformation's parameter be read off the features?"
    shown = (
        *("accuracy", "probe_accuracy", "median_error_*", "median_difference_error_*", "probe_median_error_*"),
        "spectrum_median_difference_error_*",
        *("shuffled_probe_median_error_*", "content_probe_median_error_*", "constant_median_error_*"),
        *("r2", "within_one_spread"),
    )
    baselines = ("constant_*", "*_deviation")
    readers = ("constant", "chance", "shuffled_probe", "content_probe", "probe", "spectrum")
    words = {
        "spectrum": "spectrum",
        "shuffled_probe": "linear probe of shuffled elements",
        "content_probe": "linear probe of the content",
        "probe": "linear probe",
        "constant": "ignoring the image",
        "r2": "R²",
        "circle": "through a disc",
        "zero": "with black corners",
        "degrees": "degrees",
        "deviation": "deviation between three draws",
    }
    key_figure = "examples"
    captions = {
        "examples": "Test images that are read best and worst. Above the image as it was shown, below the untouched "
        "image moved to what was read: alike where the reading is right. Each at its typical error.",
        "recovery": "Each column holds the images of one true value, shaded where the values that were read lie; "
        "on the dashed line they are right.",
        "probe": "The same for a linear probe that was trained on the true values. From the content, which should "
        "ignore the transformation, it should fail.",
        "marginals": "How probable the model holds each value for a few test images (bars), and the truth (orange).",
    }

    def measure(self, context: Context) -> Result:
        """The read-out and the probes, under the group as it was trained and as it can be shown otherwise."""
        scalars: dict[str, float] = {}
        arrays: dict[str, Array] = {}
        intervals: dict[str, tuple[float, float]] = {}
        whole = context.orbit()
        for name, group in {"": context.group, **context.group.variants()}.items():
            suffix = f"_{name}" if name else ""
            orbit = context.orbit(group, context.sizes.few) if name else whole
            for numbers, tables, sure in (_read_out(context, orbit), _probe(context, orbit, SEEDS if not name else 1)):
                scalars |= {f"{key}{suffix}": value for key, value in numbers.items()}
                arrays |= {f"{key}{suffix}": value for key, value in tables.items()}
                intervals |= {f"{key}{suffix}": value for key, value in sure.items()}
        scalars |= _without_looking(context, whole)
        arrays["g"] = orbit_centres(context.group, len(whole.g)).numpy()
        arrays["true"] = whole.g.cpu().numpy()
        arrays |= keep_examples(context.images, whole, arrays["recovered" if "recovered" in arrays else "probe"])
        facts = {"swept_images": len(context.images), "relative": context.subject.relative, "probe_seeds": SEEDS}
        return Result("recovery", scalars, arrays, facts, intervals)

    def still_holds(self, kept: Result, context: Context) -> bool:
        """Whether differences were measured for whoever is compared by them."""
        return f"constant_median_difference_error_{unit_name(context.group.unit)}" in kept.scalars

    def summary(self, result: Result) -> dict[str, str]:
        """The read-out, through a disc too, and the probes."""
        unit = unit_name(result.provenance["unit"])
        words = unit.replace("_", " ")
        rows = {
            "accuracy": "element read off without a head, accuracy",
            f"median_error_{unit}": f"recovered without a head, median error ({words})",
            f"median_error_{unit}_circle": "  seen through a disc",
            f"probe_median_error_{unit}": f"by a linear probe, median error ({words})",
            f"content_probe_median_error_{unit}": "  from the content alone (it should not know)",
        }
        return {key: text for key, text in rows.items() if key in result.scalars}

    def claim(self, result: Result) -> Claim | None:
        """The element is read off: without a head where there are columns, else by a probe."""
        s, p = result.scalars, result.provenance
        unit = unit_name(p["unit"])
        between, finite = f"median_difference_error_{unit}", "probe_accuracy" in s
        own, how = ("accuracy", "right for {} of the images") if finite else (f"median_error_{unit}", "to {}")
        probe, raw = f"probe_{own}", "" if finite else p["unit"]
        words = {"what": p["title"], "blind": "ignoring the image"}
        if not finite and p.get("relative") and between in s and f"constant_{between}" in s:
            reader, asked = "probe", "a linear probe of"
            if f"spectrum_{between}" in s:
                reader, asked = "spectrum", "the spectrum of"
            blind, says = s[f"constant_{between}"], "read to {} between two views"
            return Claim(between, False, blind, f"{reader}_{between}", raw, says=says, asked=asked, **words)
        chance = s[f"constant_{own}"]
        if own in s:
            return Claim(own, finite, chance, probe, raw, says=f"read {how}", asked="a linear probe of", **words)
        says = f"a linear probe reads it {how}"
        return Claim(probe, finite, chance, probe, raw, says=says, asked="the same probe of", **words)

    def chance(self, key: str, result: Result) -> float | None:
        """The same measure of the best answer that ignores the image."""
        measure = re.search(r"(median_error|mean_error|median_difference_error|mean_difference_error|accuracy).*", key)
        if measure is None or key.endswith("_deviation"):
            return None
        name = re.sub("_(circle|zero)$", "", measure[0])
        return result.scalars.get(f"constant_{name}")

    def measured(self, key: str) -> str:
        """The same through a disc and with black corners."""
        return re.sub("_(circle|zero)$", "", super().measured(key))

    def text(self, key: str, value: float) -> str:
        """Accuracies in percent."""
        return percent(value) if "accuracy" in key else super().text(key, value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """Recovered against true, the probes, and a few P(g|x)."""
        from .drawing.examples import draw_examples
        from .drawing.recovery import draw_marginals, draw_probe, draw_recovery

        found = {"recovery": draw_recovery, "probe": draw_probe, "marginals": draw_marginals}
        if "shown_marginal" not in result.arrays:
            found = {"probe": draw_probe}
        if "example_g" in result.arrays:
            found = {"examples": draw_examples, **found}
        return {name: draw(result) for name, draw in found.items()}

    def sentence(self, result: Result) -> str:
        """How far off the reading is, beside an answer that ignores the image."""
        s, p = result.scalars, result.provenance
        unit, what = unit_name(p["unit"]), p["title"]
        between = f"median_difference_error_{unit}"
        if "accuracy" in s:
            share = percent(s["accuracy"])
            return f"Read off the features without any head, the {what} is right for {share} of the images."
        if p.get("relative") and between in s:
            found = in_unit(s[between], p["unit"])
            text = f"The {what} between two views of an image is read off to within {found} (median), without any head"
            if f"constant_{between}" in s:
                text += f"; an answer that ignores the images is off by {in_unit(s[f'constant_{between}'], p['unit'])}"
            return f"{text}."
        blind = in_unit(s[f"constant_median_error_{unit}"], p["unit"])
        if f"median_error_{unit}" not in s:
            found = in_unit(s[f"probe_median_error_{unit}"], p["unit"])
            return (
                f"The features have no columns for the {what}; a linear probe that is trained on labels reads it to "
                f"within {found} (median), where ignoring the image is off by {blind}."
            )
        found = in_unit(s[f"median_error_{unit}"], p["unit"])
        text = f"Read off the features without any head, the {what} is off by {found} (median)"
        if f"median_error_{unit}_circle" in s:
            hidden = in_unit(s[f"median_error_{unit}_circle"], p["unit"])
            text += f", and by {hidden} through a disc that hides the telling corners"
        return f"{text}; an answer that ignores the image is off by {blind}."


def _other_places(n: int, images: int, generator: torch.Generator) -> Tensor:
    """For every view another view of the same image, drawn at random: places (n,N)."""
    return (torch.arange(n).unsqueeze(1) + torch.randint(1, n, (n, images), generator=generator)).remainder(n)


def difference_errors(g: Tensor, found: Tensor, group: Group, generator: torch.Generator) -> Tensor:
    """Raw errors of found_b - found_a as a measure of b - a, one random b for every image and a: (n,N) each."""
    n, images = found.shape
    other = _other_places(n, images, generator).to(found.device)
    if group.cyclic:
        low, high = group.span
        wanted = g.gather(0, other) - g
        return group.domain.distance(found.gather(0, other) - found, wanted) * abs(high - low)
    raw, raw_found = group.parameter(g), group.parameter(found)
    return ((raw_found.gather(0, other) - raw_found) - (raw.gather(0, other) - raw)).abs()


def spectrum_difference_errors(spectrum: Spectrum, orbit: Orbit, generator: torch.Generator) -> Tensor:
    """The same, on the same pairs of views, where the spectrum of the features tells the difference: (n,N)."""
    n, images, dim = orbit.z.shape
    other = _other_places(n, images, generator).to(orbit.g.device)
    reached = orbit.z.gather(0, other.unsqueeze(2).expand(-1, -1, dim))
    found = spectrum.difference(orbit.z.reshape(-1, dim), reached.reshape(-1, dim)).g.reshape(n, images)
    low, high = orbit.group.span
    return orbit.group.domain.distance(found.to(orbit.g), orbit.g.gather(0, other) - orbit.g) * abs(high - low)


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


Numbers = tuple[dict[str, float], dict[str, Array], dict[str, tuple[float, float]]]
"""Scalars, arrays and intervals."""


def _read_out(context: Context, orbit: Orbit) -> Numbers:
    """DUET's own reading, without any head; nothing where the features have no columns for the group, or too few."""
    axis, group = axis_of(context.subject, orbit.group), orbit.group
    if axis is None or not axis.readable:
        return {}, {}, {}
    n, images, dim = orbit.z.shape
    layout, draw = context.subject.layout, context.bootstrap(images)
    estimate = recover(orbit.z.reshape(n * images, dim), layout, axis)
    found = estimate.g.float().reshape(n, images)
    apart = difference_errors(orbit.g, found, group, context.generator("differences"))
    scalars = _differences(apart, group)
    intervals = _difference_interval(apart, group, "", draw)
    if context.subject.relative:
        # No common origin: only differences have meaning, and what is kept is the difference to where an image starts.
        rows = torch.arange(images, device=found.device)
        found = group.domain.wrap(found - found[orbit.start, rows] + orbit.g[orbit.start, rows])
    else:
        scalars |= errors(orbit.g.flatten(), found.flatten(), group)
        intervals |= _intervals(orbit.g, found, group, draw)
        scalars |= calibration(group.domain.distance(found, orbit.g).flatten(), estimate.spread)
    shown = torch.linspace(0, n - 1, min(SHOWN, n)).round().long()
    few = torch.arange(len(shown)) % images  # image k at the k-th of a few elements, evenly apart
    marginal = layout.group_logits(orbit.z[shown, few], axis).softmax(1)
    arrays = {
        "recovered": found.cpu().numpy(),
        "spread": estimate.spread.reshape(n, images).float().cpu().numpy(),
        "shown_g": orbit.g[shown, few].cpu().numpy(),
        "shown_marginal": marginal.cpu().numpy(),
    }
    return scalars, arrays, intervals


def _probe(context: Context, orbit: Orbit, seeds: int) -> Numbers:
    """The linear probe from all features, from shuffled elements and, to see what leaks, from the content alone."""
    group = orbit.group
    true, draw = orbit.g.cpu(), context.bootstrap(orbit.g.shape[1])
    found = probe_orbit(context, orbit, seeds)
    scalars, intervals = _over_seeds(true, found, group, "probe_", draw)
    arrays = {"probe": found[0].numpy()}
    if seeds > 1:
        shuffled = _over_seeds(true, probe_shuffled(context, orbit), group, "shuffled_probe_", draw)[0]
        scalars |= {key: value for key, value in shuffled.items() if not key.endswith("r2")}
    apart = [difference_errors(true, own, group, context.generator("differences")) for own in found]
    scalars |= _differences(torch.cat(apart), group, "probe_")
    intervals |= _difference_interval(torch.cat(apart), group, "probe_", draw)
    if seeds > 1 and group.elements is None and Spectrum.name in context.actions:
        told = spectrum_difference_errors(context.spectrum, orbit, context.generator("differences"))
        scalars |= _differences(told, group, "spectrum_")
        intervals |= _difference_interval(told, group, "spectrum_", draw)
    if context.subject.layout.axes:
        content = probe_orbit(context, orbit, seeds, content=True)
        scalars |= _over_seeds(true, content, group, "content_probe_", draw)[0]
        arrays["content_probe"] = content[0].numpy()
    return scalars, arrays, intervals


def _over_seeds(
    true: Tensor, found: Tensor, group: Group, prefix: str, draw: Bootstrap
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Mean and deviation of the errors over the draws (seeds,n,N) of what a probe was trained on."""
    each = [errors(true.flatten(), own.flatten(), group, prefix) for own in found]
    scalars = {key: float(np.mean([own[key] for own in each])) for key in each[0]}
    if len(each) > 1:
        main = f"{prefix}median_error_{unit_name(group.unit)}" if group.elements is None else f"{prefix}accuracy"
        scalars[f"{main}_deviation"] = float(np.std([own[main] for own in each], ddof=1))
    return scalars, _intervals(true, found, group, draw, prefix)


def _intervals(
    true: Tensor, found: Tensor, group: Group, draw: Bootstrap, prefix: str = ""
) -> dict[str, tuple[float, float]]:
    """Of the median error and, if finite, the accuracy: true (n,N), found (n,N) or (seeds,n,N)."""
    every = found.reshape(-1, found.shape[-1])  # (m, N)
    true = true.repeat(len(every) // len(true), 1)
    intervals = {f"{prefix}median_error_{unit_name(group.unit)}": draw.median(raw_error(true, every, group).T)}
    if group.elements is not None:
        intervals[f"{prefix}accuracy"] = draw.share(hits(true, every, group).T)
    return dict(intervals)


def _differences(apart: Tensor, group: Group, prefix: str = "") -> dict[str, float]:
    """Median and mean of errors between two views: (m,N)."""
    unit = unit_name(group.unit)
    return {
        f"{prefix}median_difference_error_{unit}": float(np.median(apart.cpu().numpy())),
        f"{prefix}mean_difference_error_{unit}": float(apart.mean()),
    }


def _difference_interval(apart: Tensor, group: Group, prefix: str, draw: Bootstrap) -> dict[str, tuple[float, float]]:
    """Of their median."""
    return {f"{prefix}median_difference_error_{unit_name(group.unit)}": draw.median(apart.T)}


def _without_looking(context: Context, orbit: Orbit) -> dict[str, float]:
    """The errors of the best answer that ignores the image: on the circle any element, on the interval the median.

    Between two views it answers that nothing changed; of a circle that is as good as any other answer.
    """
    group, true = orbit.group, orbit.g.flatten()
    best = torch.full_like(true, group.identity) if group.cyclic else true.median().expand(len(true))
    found = errors(true, best, group, "constant_")
    still = torch.zeros_like(orbit.g) + best[:1]
    apart = difference_errors(orbit.g, still, group, context.generator("differences"))
    found |= _differences(apart, group, "constant_")
    return {key: value for key, value in found.items() if not key.endswith("r2")}  # 0 or less by definition


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 0, equal values at their mean rank: (n,) -> (n,)."""
    _, inverse, counts = torch.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    mean_rank: Tensor = last - (counts.double() + 1) / 2
    return mean_rank[inverse]
