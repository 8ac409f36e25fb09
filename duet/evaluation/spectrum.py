"""Which features turn with the image, how purely, and how well two views of one image tell their difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..groups import Group
from ..representation import Spectrum
from ..representation.capacity import dimensions
from ..unit import in_unit, unit_name
from .context import Context, Orbit
from .evaluation import Claim, Evaluation, register_evaluation
from .result import Array, Result
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@register_evaluation
class Harmonics(Evaluation):
    """Capacities of the harmonics, and the difference of two views of held-out images by their best match."""

    name = "spectrum"
    order = 35
    title = "Spectrum"
    question = "How many features ignore the transformation, and how many turn with it?"
    shown = (
        *("difference_accuracy", "median_difference_error_*", "constant_difference_*"),
        *("invariant_dimensions", "equivariant_planes", "equivariant_dimensions"),
    )
    baselines = ("constant_*",)
    words = {"other_classes": "fitted on other classes", "constant": "ignoring the images", "degrees": "degrees"}
    captions = {
        "purities": "Parts of the features, the purest first, by what they do when the image is transformed: the first "
        "panel ignores it, the others turn once, twice, ... as fast. 1 is exactly, 0 is chance, on held-out images.",
    }

    def measure(self, context: Context) -> Result:
        """Components found on training images; differences of held-out ones from turned starts."""
        group, spectrum, orbit = context.group, context.spectrum, context.orbit()
        scalars = dimensions(spectrum)
        intervals: dict[str, tuple[float, float]] = {}
        found = difference_errors(spectrum, orbit)
        name = _name(group)
        draw = context.bootstrap(found.shape[1])
        scalars[name] = _middle(found, group)
        intervals[name] = draw.median(found.T) if group.elements is None else draw.share(found.T)
        foreign = [
            difference_errors(action, orbit.of(images.to(orbit.z.device)))
            for images, own in context.foreign_actions
            for action in own.values()
            if isinstance(action, Spectrum)
        ]
        if foreign:
            scalars[f"{name}_other_classes"] = _middle(torch.cat(foreign, 1), group)
        scalars |= _without_looking(orbit)
        arrays: dict[str, Array] = {f"purity_{k}": purity.numpy() for k, purity in spectrum.purity.items()}
        arrays["error"] = found.float().numpy()
        fitted = context.views()
        facts = {
            "views": context.sizes.views,
            "fitted_views": fitted.z.shape[0] * fitted.z.shape[1],
            "features": len(spectrum.mean),
            "harmonics": spectrum.harmonics,
        }
        return Result("spectrum", scalars, arrays, facts, intervals)

    def summary(self, result: Result) -> dict[str, str]:
        """The difference of two views, and the dimensions."""
        unit = unit_name(result.provenance["unit"])
        rows = {
            "difference_accuracy": "difference of two views, accuracy",
            f"median_difference_error_{unit}": f"difference of two views, median error ({unit})",
            f"median_difference_error_{unit}_other_classes": "  fitted on other classes",
            "invariant_dimensions": "dimensions that ignore the transformation",
            "equivariant_planes": "planes that turn with it",
        }
        return {key: text for key, text in rows.items() if key in result.scalars}

    def claim(self, result: Result) -> Claim | None:
        """Two views tell their difference."""
        s, p = result.scalars, result.provenance
        words = {"what": p["title"], "asked": "the spectrum of", "blind": "ignoring the images"}
        if "difference_accuracy" in s:
            says = "two views tell their difference in {} of the cases"
            chance = s["constant_difference_accuracy"]
            return Claim("difference_accuracy", True, chance, says=says, **words)
        key, says = f"median_difference_error_{unit_name(p['unit'])}", "two views tell their difference to {}"
        chance = s[key.replace("median", "constant")]
        return Claim(key, False, chance, unit=p["unit"], says=says, **words)

    def chance(self, key: str, result: Result) -> float | None:
        """The same measure of an answer that ignores the images."""
        if "difference" not in key:
            return None
        name = key.removesuffix("_other_classes").removeprefix("median_")
        return result.scalars.get(f"constant_{name}")

    def measured(self, key: str) -> str:
        """Of a guess the median error is known without measuring: its name leaves that out."""
        own = key.removesuffix("_other_classes").replace("constant_difference_error", "median_difference_error")
        return super().measured(own)

    def text(self, key: str, value: float) -> str:
        """Accuracies in percent."""
        return percent(value) if "accuracy" in key else super().text(key, value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """Purities by harmonic."""
        return {"purities": draw_purities({"": result})}

    def sentence(self, result: Result) -> str:
        """How many ignore it, how many turn, and what two views tell."""
        s, p = result.scalars, result.provenance
        what, total = p["title"], int(p["features"])
        text = (
            f"Of {total} features, {s['invariant_dimensions']:.0f} dimensions ignore the {what} and "
            f"{s['equivariant_dimensions']:.0f} turn with it"
        )
        if "difference_accuracy" in s:
            return (
                f"{text}; the difference of two views is right in {100 * s['difference_accuracy']:.1f} % of the cases."
            )
        error = in_unit(s[f"median_difference_error_{unit_name(p['unit'])}"], p["unit"])
        return f"{text}; two views of an image tell their difference to within {error} (median), without any head."


def difference_errors(spectrum: Spectrum, orbit: Orbit) -> Tensor:
    """From every image's start to its other elements: |found - true| in the raw unit, or hits if finite: (n-1,N)."""
    group, goals = orbit.group, orbit.goals()
    g, z = orbit.at_start()
    rows = torch.arange(len(g), device=g.device).expand_as(goals)
    reached, wanted = orbit.z[goals, rows], orbit.g[goals, rows] - g
    count, images, dim = reached.shape
    found = spectrum.difference(z.expand_as(reached).reshape(-1, dim), reached.reshape(-1, dim))
    error = group.domain.distance(found.g.reshape(count, images).to(wanted), wanted).cpu()
    if group.elements is not None:
        return (error < 0.5 / len(group.elements)).double()
    low, high = group.span
    return error.double() * abs(high - low)


def draw_purities(results: dict[str, Result]) -> Figure:
    """One panel a harmonic: the purities of its components, the purest first; one curve an encoder, by its name."""
    from .. import figure as draw

    first = next(iter(results.values()))
    harmonics = [int(k) for k in first.provenance["harmonics"]]
    figure = draw.new_figure(1.9 * len(harmonics) + 0.6, 2.5)
    axes = figure.subplots(1, len(harmonics), sharey=True, squeeze=False)[0]
    for axis, k in zip(axes, harmonics, strict=True):
        for (name, result), colour, line in zip(results.items(), draw.COLOURS * 3, draw.LINES * 5, strict=False):
            purity = np.sort(result.arrays.get(f"purity_{k}", np.zeros(0)))[::-1]
            axis.step(np.arange(len(purity)) + 0.5, purity, where="mid", color=colour, ls=line, label=name or None)
        sums = result.scalars.get(f"capacity_{k}", 0.0) if len(results) == 1 else None
        kind = "ignores it" if k == 0 else f"turns {k}x"
        axis.set_title(f"{kind}\nsum {sums:.1f}" if sums is not None else kind, fontsize=draw.FONT)
        axis.axhline(0, color="black", lw=0.8)
        axis.set_ylim(-0.15, 1.02)
        axis.set_xlabel("component")
    axes[0].set_ylabel("purity on held-out images")
    if len(results) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return draw.without_frame(figure)


def _name(group: Group) -> str:
    """The number that sums up the differences."""
    return f"median_difference_error_{unit_name(group.unit)}" if group.elements is None else "difference_accuracy"


def _middle(found: Tensor, group: Group) -> float:
    """The median of errors, or the share of hits."""
    return float(np.median(found.numpy())) if group.elements is None else float(found.mean())


def _without_looking(orbit: Orbit) -> dict[str, float]:
    """Of an answer that ignores the images: on the circle any will do, of several elements a guess."""
    group = orbit.group
    if group.elements is not None:
        return {"constant_difference_accuracy": 1 / len(group.elements)}
    low, high = group.span
    return {f"constant_difference_error_{unit_name(group.unit)}": abs(high - low) / 4}
