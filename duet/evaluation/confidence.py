"""Whether a model knows when it is right: its probabilities beside what came true, and images that mean nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..groups import Group
from ..model import Encoder
from ..model.confidence import SURE, is_right, tolerance
from .context import Context
from .evaluation import Evaluation, Inapplicable, register_evaluation
from .result import Result
from .subject import need_axis
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 10
"""Of equal count, over which the calibration error is taken."""


@register_evaluation
class Confidence(Evaluation):
    """Probabilities of readings against how often they are right, at turned elements; and noise and plain images."""

    name = "confidence"
    order = 25
    rivals = False
    title = "Confidence"
    question = "Does the model know when its reading is right?"
    shown = (
        *("sure", "wrong_if_sure", "expected_calibration_error"),
        *("sure_noise", "sure_constant", "known", "right"),
    )
    words = {
        "sure": "share that is sure",
        "wrong_if_sure": "share of the sure ones that is wrong",
        "wrong_if_unsure": "share of the others that is wrong",
        "expected_calibration_error": "expected calibration error",
        "known": "share that counts as known",
        "right": "share that is right",
        "noise": "of uniform noise",
        "constant": "of constant images",
    }
    captions = {
        "reliability": "Left: test images in ten groups of equal size, by the probability that the model gives its "
        "reading; on the dashed line it is right as often as it says. Right: of how many images it is sure; noise and "
        "constant images have nothing to be sure of.",
    }

    def measure(self, context: Context) -> Result:
        """Readings of the test images at turned elements, whose features the other evaluations share."""
        encoder, group = context.subject, context.group
        axis = need_axis(encoder, group)
        if not isinstance(encoder, Encoder) or encoder.confidence is None or axis.name not in encoder.confidence.axes:
            raise Inapplicable("the model is not calibrated: it cannot say how sure it is")
        orbit = context.orbit()
        images = orbit.z.shape[1]
        reading = encoder.recover(orbit.z.flatten(0, 1), axis)
        probability, sure, known = reading.probability, reading.sure, reading.known
        assert probability is not None
        assert sure is not None
        assert known is not None
        right = is_right(reading.g, orbit.g.flatten().to(reading.g), group)
        said, came_true = reliability(probability, right)
        scalars = {
            "sure": _share(sure),
            **{
                f"wrong_if_{name}": _share(~right[m])
                for name, m in (("sure", sure), ("unsure", ~sure))
                if bool(m.any())
            },
            "expected_calibration_error": calibration_error(probability, right),
            "known": _share(known),
            "right": _share(right),
        }
        draw = context.bootstrap(images)
        by_image = {"sure": sure, "known": known, "right": right}
        intervals: dict[str, tuple[float, float]] = {
            key: draw.share(own.reshape(-1, images).T.double()) for key, own in by_image.items()
        }
        if bool(sure.any()):
            wrong, counted = ((own.reshape(-1, images).T.double()) for own in (sure & ~right, sure))
            intervals["wrong_if_sure"] = draw.share_of(wrong, counted)
        shape = context.images.shape[1:]
        generator = context.generator("noise")
        senseless = {
            "noise": torch.rand(images, *shape, generator=generator),
            "constant": torch.rand(images, shape[0], 1, 1, generator=generator).expand(-1, *shape),
        }
        for name, pictures in senseless.items():
            found = encoder.recover(encoder.features(pictures), axis).sure
            assert found is not None
            scalars[f"sure_{name}"] = _share(found)
        arrays = {"said": said, "came_true": came_true}
        return Result(self.name, scalars, arrays, {"wrong": wrong_in_words(group), "swept_images": images}, intervals)

    def summary(self, result: Result) -> dict[str, str]:
        """Sure and wrong, and the calibration error."""
        rows = {
            "sure": "sure of its reading, share of the images",
            "wrong_if_sure": f"  of these {result.provenance['wrong']}",
            "expected_calibration_error": "  expected calibration error of its probabilities",
        }
        return {key: text for key, text in rows.items() if key in result.scalars}

    def figures(self, result: Result) -> dict[str, Figure]:
        """The reliability diagram, and of what the model is sure."""
        return {"reliability": draw_reliability(result)}

    def sentence(self, result: Result) -> str:
        """How often it is sure and how often that is wrong, beside images that mean nothing."""
        s = result.scalars
        text = "The model is not sure of a single test image"
        if "wrong_if_sure" in s:
            wrong = f"{percent(s['wrong_if_sure'])} of these are {result.provenance['wrong']}"
            text = f"The model is sure of {percent(s['sure'])} of the test images, and {wrong}"
        noise, constant = percent(s["sure_noise"]), percent(s["sure_constant"])
        return f"{text}; of uniform noise it is sure in {noise} of the cases, of constant images in {constant}."


def reliability(probability: Tensor, right: Tensor, bins: int = BINS) -> tuple[Tensor, Tensor]:
    """Mean probability and share of right readings, in groups of equal count: (n,), (n,) -> (bins,), (bins,)."""
    parts = [part for part in torch.tensor_split(probability.argsort(stable=True), bins) if len(part)]
    said = torch.stack([probability[part].double().mean() for part in parts])
    return said, torch.stack([right[part].double().mean() for part in parts])


def calibration_error(probability: Tensor, right: Tensor, bins: int = BINS) -> float:
    """sum_b n_b / n |mean probability_b - share right_b| over groups of equal count: (n,), (n,) -> number."""
    said, came_true = reliability(probability, right, bins)
    counts = torch.tensor([len(part) for part in torch.tensor_split(probability, bins) if len(part)])
    return float(((said - came_true).abs().cpu() * counts).sum() / counts.sum())


def wrong_in_words(group: Group) -> str:
    """What counts as wrong."""
    if group.elements is not None:
        return "nearer to a wrong element"
    low, high = group.span
    return f"wrong by more than {group.write(tolerance(group) * abs(high - low), 0)}"


def draw_reliability(result: Result) -> Figure:
    """How often a probability came true, and the shares of which the model is sure."""
    from .. import figure as draw

    figure = draw.new_figure(7.2, 3.4)
    chart, bars = figure.subplots(1, 2, width_ratios=[1.2, 1])
    said, came_true = result.arrays["said"], result.arrays["came_true"]
    chart.plot([0, 1], [0, 1], color=draw.GREY, lw=1, ls="--")
    chart.plot(said, came_true, color=draw.BLUE, marker="o", lw=1.5)
    chart.axvline(SURE, color=draw.ORANGE, lw=1.2, ls=":")
    chart.set_xlabel("probability that the model gives")
    chart.set_ylabel("share that is right")
    low = max(0.0, float(min(said.min(), came_true.min())) - 0.05)
    chart.set_xlim(low, 1.01)
    chart.set_ylim(low, 1.01)
    error = result.scalars["expected_calibration_error"]
    chart.set_title(f"expected calibration error {error:.3f}", fontsize=draw.FONT)
    keys = {"test images": "sure", "uniform noise": "sure_noise", "constant images": "sure_constant"}
    shares = [100 * result.scalars[key] for key in keys.values()]
    bars.barh(list(keys)[::-1], shares[::-1], color=draw.BLUE)
    bars.set_xlim(0, 100)
    bars.set_xlabel("sure, %")
    return draw.without_frame(figure)


def _share(mask: Tensor) -> float:
    return float(mask.float().mean())
