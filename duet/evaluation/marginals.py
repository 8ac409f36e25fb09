"""Is the group's element already in the data? P(g|x) averaged over untouched images (the paper's ambiguity)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..domain import Topology, as_domain
from ..groups import Group
from ..representation import Axis, recover
from .context import Context
from .element import raw_error
from .evaluation import Evaluation, Inapplicable, register_evaluation
from .recovery import difference_errors
from .result import Array, Result
from .subject import need_axis
from .verdict import LEAST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLEAR, UNCLEAR = 0.25, 0.6
PROMINENCE = 0.1  # a mode stands out by a tenth of the highest mass
APART = 0.5  # of the error of elements, that of differences at most, where it is the images that differ


class Modes(NamedTuple):
    """Where the masses have peaks that stand out, and how high they are, highest first: (m,), (m,)."""

    g: Array
    mass: Array


class Reading(NamedTuple):
    """How well transformed images are read, from chance (0) to perfect (1): their elements, and their differences."""

    elements: float
    differences: float


@register_evaluation
class Marginals(Evaluation):
    """The averaged marginal of untouched test images, its modes, and one index in [0, 1] with a sentence of advice."""

    name = "marginals"
    order = 50
    rivals = False
    title = "Ambiguity"
    question = "Do the images have an upright, or do they come at every element already?"
    shown = ("ambiguity*", "modes")
    captions = {
        "ambiguity": "Where the model places untouched images (bars, their average), between what it would show if all "
        "of them were upright (orange) and if every element were as common (dashed).",
    }

    def measure(self, context: Context) -> Result:
        """The average, and how far it lies from all-upright towards anywhere."""
        subject, group = context.subject, context.group
        axis = need_axis(subject, group)
        if not axis.readable:
            raise Inapplicable(f"{axis.bins} bins on a circle cannot tell g from its mirror image")
        if subject.relative:
            raise Inapplicable("a relative reference has no upright that untouched images could be compared with")
        masses = subject.layout.group_logits(context.test_features.z, axis).cpu().double().softmax(1)
        average = masses.mean(0)
        upright, anywhere = expectations(axis, group)
        index = ambiguity(average, upright, anywhere)
        # The same if every image were as sure as the target: where the best guesses lie, not how sure they are.
        guesses = axis.target.masses(axis.target.estimate(masses, "match").g, axis.bins).mean(0)
        index_of_guesses = ambiguity(guesses, upright, anywhere)
        modes = find_modes(average.numpy(), group.domain)
        reading = read_transformed(context, axis)
        scalars = {
            "ambiguity": index,
            "ambiguity_of_guesses": index_of_guesses,
            "modes": float(len(modes.g)),
            "main_mode": float(group.parameter(float(modes.g[0]))),
            # The average can be wide because images disagree, or because each of them is unsure.
            "entropy": entropy(average.unsqueeze(0)),
            "entropy_of_one_image": entropy(masses),
            "reading": reading.elements,
            "reading_of_differences": reading.differences,
        }
        arrays = {
            "average": average.numpy(),
            "guesses": guesses.numpy(),
            "quartiles": torch.quantile(masses, torch.tensor([0.25, 0.75]).double(), dim=0).numpy(),
            "upright": upright.numpy(),
            "anywhere": anywhere.numpy(),
            "modes": modes.g,
            "mode_masses": modes.mass,
        }
        facts = {"images": len(masses), "advice": advice(index, index_of_guesses, group.name, reading)}
        return Result("marginals", scalars, arrays, facts)

    def summary(self, result: Result) -> dict[str, str]:
        """Nothing: it says more about the images than about the encoder."""
        return {}

    def figures(self, result: Result) -> dict[str, Figure]:
        """The averaged marginal between its two extremes."""
        return {"ambiguity": draw_ambiguity(result)}

    def sentence(self, result: Result) -> str:
        """The advice, and the index."""
        s = result.scalars
        found = advice(s["ambiguity"], s["ambiguity_of_guesses"], result.provenance["title"], reading_of(result))
        if reading_of(result).elements < LEAST:
            return found
        return f"{found} Ambiguity {s['ambiguity']:.2f}: 0 means that all images are upright, 1 that none is."


def expectations(axis: Axis, group: Group) -> tuple[Tensor, Tensor]:
    """The averaged marginal if all images sat at the identity, and if they sat at every element alike: (bins,) each."""
    if group.elements is not None:
        elements = torch.tensor(group.elements, dtype=torch.float64)
    else:
        elements = (torch.arange(256, dtype=torch.float64) + 0.5) / 256
    identity = torch.tensor([group.identity], dtype=torch.float64)
    return axis.target.masses(identity, axis.bins)[0], axis.target.masses(elements, axis.bins).mean(0)


def ambiguity(average: Tensor, upright: Tensor, anywhere: Tensor) -> float:
    """The a in [0, 1] for which (1 - a) upright + a anywhere lies nearest to the average; masses (bins,) each.

    0: untouched images all sit at the identity. 1: every element is as common as the identity. Of a two-element group
    it is twice the share of images at the other element.
    """
    way = anywhere - upright
    return float(((average - upright) @ way / (way @ way)).clamp(0, 1))


def find_modes(masses: Array, cyclic: Topology) -> Modes:
    """Peaks that stand out by PROMINENCE of the highest, placed by a parabola through three log masses: (bins,)."""
    from scipy.signal import find_peaks

    bins = len(masses)
    around = as_domain(cyclic).cyclic
    # On the circle from the lowest bin once around; on the interval the ends may be peaks, so the floor lies outside.
    start = int(np.argmin(masses)) if around else 0
    line = np.roll(masses, -start)
    floor = masses.min() if around else 0.0
    padded = np.concatenate([[floor], line, [floor]])
    peaks, _ = find_peaks(padded, prominence=PROMINENCE * masses.max())
    if not len(peaks):  # all masses equal: no peak, so the middle of the whole
        peaks = np.array([1 + int(np.argmax(line))])
    bin_of = (peaks - 1 + start) % bins
    place = np.array([(j + 0.5 + _vertex(masses, j, around)) / bins for j in bin_of])
    order = np.argsort(-masses[bin_of], kind="stable")
    return Modes((place % 1 if around else place.clip(0, 1))[order], masses[bin_of][order])


def entropy(masses: Tensor) -> float:
    """Mean entropy of rows of masses, in units of that of the uniform distribution: (n,bins) -> number in [0, 1]."""
    return float(-torch.special.xlogy(masses, masses).sum(1).mean()) / math.log(masses.shape[1])


def read_transformed(context: Context, axis: Axis) -> Reading:
    """1 - mean error / mean error of an answer that ignores the image, over the orbit; of an image's differences too.

    Of elements it is the worse end of its 95 % interval.
    """
    orbit = context.orbit()
    n, images, dim = orbit.z.shape
    found = recover(orbit.z.reshape(n * images, dim), context.subject.layout, axis).g.reshape(n, images)
    group, true, found = orbit.group, orbit.g.double(), found.double()
    constant = true.median().expand_as(true)
    off, blind = (raw_error(true, answer, group) for answer in (found, constant))
    apart, blind_apart = (
        difference_errors(true, answer, group, context.generator("differences")) for answer in (found, constant)
    )
    worse = context.bootstrap(images).mean(off.T).high
    return Reading(_gain(worse, float(blind.mean())), _gain(float(apart.mean()), float(blind_apart.mean())))


def reading_of(result: Result) -> Reading:
    """How well transformed images were read."""
    return Reading(result.scalars.get("reading", 1.0), result.scalars.get("reading_of_differences", 1.0))


def can_judge(reading: Reading) -> bool:
    """Whether a model that reads so well can say anything about untouched images."""
    return max(reading) >= LEAST


def images_differ(reading: Reading) -> bool:
    """Whether each image is read alike wherever it is moved, but not as the others: then it is images that differ.

    A model that has learned little errs as much between two views of one image as it does otherwise.
    """
    return can_judge(reading) and 1 - reading.differences <= APART * (1 - reading.elements)


def advice(index: float, index_of_guesses: float, name: str, reading: Reading) -> str:
    """One sentence: is structure for this group likely to help on these images?"""
    if not can_judge(reading):
        return f"The model cannot read {name} off transformed images, so it says nothing about untouched ones."
    if reading.elements < LEAST:
        return (
            f"The model tells how two views of an image differ in {name}, but not where an image sits: either it has "
            "not learned the upright yet, or the images have none, and then the relative reference is for them."
        )
    if index_of_guesses < CLEAR <= index:
        return f"The model is unsure, but its guesses agree on one element of {name}: train longer before judging."
    if index < CLEAR:
        return f"Untouched images nearly all sit at one element of {name}: structure for it is likely to help."
    if not images_differ(reading):
        return f"The model reads {name} too coarsely to tell where untouched images sit: train longer before judging."
    if index < UNCLEAR:
        return f"Some images already come transformed by {name}: structure for it may help; compare with weight 0."
    return (
        f"Images come at many elements of {name}: structure for it is unlikely to help; try the relative reference, or "
        "leave the group out."
    )


def _gain(error: float, blind: float) -> float:
    return 1 - error / blind if blind > 0 else 0.0


def _vertex(masses: Array, place: int, around: bool) -> float:
    """Offset in bins of the peak of the parabola through the log masses at place and its neighbours, within 1/2."""
    bins = len(masses)
    if not around and place in (0, bins - 1):
        return 0.0
    low, here, high = np.log(np.maximum(masses[[place - 1, place, (place + 1) % bins]], 1e-12))
    bend = low - 2 * here + high
    return float(np.clip(0.5 * (low - high) / bend, -0.5, 0.5)) if bend < 0 else 0.0


def draw_ambiguity(result: Result) -> Figure:
    """P(g|x) averaged over untouched images, between what clear and what fully ambiguous data would give."""
    from .. import figure as draw

    facts = result.provenance
    figure = draw.new_figure(6.6, 3.1)
    axis = figure.subplots()
    centres = draw.draw_bars(axis, result.arrays["average"], facts, label="averaged over untouched images")
    low, high = result.arrays["quartiles"]
    axis.vlines(centres, low, high, color="black", lw=1.4, label="middle half of the images")
    draw.draw_steps(axis, result.arrays["upright"], facts, draw.ORANGE, "-", "if all were upright")
    draw.draw_steps(axis, result.arrays["anywhere"], facts, draw.PURPLE, "--", "if every element were as common")
    modes = draw.raw(result.arrays["modes"], facts)
    top = np.full(len(modes), 1.04 * axis.get_ylim()[1])
    axis.plot(modes, top, "v", color=draw.BLUE, ms=7, clip_on=False, label="modes")
    draw.element_axis(axis.xaxis, facts)
    axis.set_xlabel(draw.element_label(facts))
    axis.set_ylabel("mass of a bin")
    axis.set_ylim(bottom=0)
    axis.set_title(f"{facts['data']}: ambiguity {result.scalars['ambiguity']:.2f}", fontsize=draw.FONT + 1)
    axis.legend(fontsize=draw.FONT - 1.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return draw.without_frame(figure)
