"""Ambiguity: how far the elements of a group already occur in the data."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from duet.domain import Circle
from duet.evaluation import Inapplicable
from duet.evaluation.marginals import (
    CLEAR,
    Marginals,
    Reading,
    advice,
    ambiguity,
    entropy,
    expectations,
    find_modes,
    read_transformed,
)
from duet.evaluation.subject import Outsider
from duet.groups import Group, find_group
from duet.representation import Axis, Gaussian, Table, VonMises

from .conftest import SMALL, make_context, read_brightness

AXES = {
    "rot360": Axis("rot360", 8, VonMises(0.2)),
    "rot4": Axis("rot4", 8, VonMises(0.2)),
    "hflip": Axis("hflip", 8, VonMises(0.2)),
    "brightness": Axis("brightness", 8, Gaussian(0.2)),
}


@pytest.mark.parametrize("name", AXES)
def test_the_index_runs_from_clear_to_any_element(name):
    upright, anywhere = expectations(AXES[name], find_group(name))
    assert float(anywhere.sum()) == pytest.approx(1)
    assert ambiguity(upright, upright, anywhere) == pytest.approx(0)
    assert ambiguity(anywhere, upright, anywhere) == pytest.approx(1)
    assert ambiguity(0.7 * upright + 0.3 * anywhere, upright, anywhere) == pytest.approx(0.3)


def test_on_the_circle_any_element_is_uniform():
    _, anywhere = expectations(AXES["rot360"], find_group("rot360"))
    torch.testing.assert_close(anywhere, torch.full((8,), 1 / 8, dtype=torch.float64), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_of_two_elements_it_is_twice_the_share_of_the_other(share):
    axis, group = AXES["hflip"], find_group("hflip")
    upright, anywhere = expectations(axis, group)
    flipped = axis.target.masses(torch.tensor([0.75], dtype=torch.float64), 8)[0]
    assert ambiguity((1 - share) * upright + share * flipped, upright, anywhere) == pytest.approx(2 * share)


def test_sharper_than_the_target_is_not_below_zero():
    upright, anywhere = expectations(AXES["rot360"], find_group("rot360"))
    sharp = torch.zeros(8, dtype=torch.float64)
    sharp[3:5] = 0.5
    assert ambiguity(sharp, upright, anywhere) == 0


@pytest.mark.parametrize("g", [0.02, 0.25, 0.5, 0.6, 0.99])
def test_the_mode_of_a_target_is_its_peak(g):
    masses = VonMises(0.2).masses(torch.tensor([g]), 8)[0].double().numpy()
    modes = find_modes(masses, cyclic=True)
    assert len(modes.g) == 1
    assert abs((modes.g[0] - g + 0.5) % 1 - 0.5) < 0.02


def test_two_modes_highest_first():
    target = VonMises(0.15)
    masses = (target.masses(torch.tensor([0.25, 0.75]), 16) * torch.tensor([[0.3], [0.7]])).sum(0).double().numpy()
    modes = find_modes(masses, cyclic=True)
    assert modes.g == pytest.approx([0.75, 0.25], abs=0.02)
    assert modes.mass[0] > modes.mass[1]


def test_ends_of_an_interval_can_be_modes():
    modes = find_modes(np.array([0.4, 0.1, 0.05, 0.05, 0.1, 0.3]), cyclic=False)
    assert modes.g == pytest.approx([1 / 12, 11 / 12])


def test_ripples_are_no_modes():
    ripples = 0.125 + 0.002 * np.array([1, -1, 1, -1, 1, -1, 1, -1])
    assert len(find_modes(ripples, cyclic=True).g) == 1
    assert len(find_modes(np.full(8, 0.125), cyclic=True).g) == 1


def test_entropy_by_hand():
    assert entropy(torch.full((3, 4), 0.25)) == pytest.approx(1)
    assert entropy(torch.tensor([[1.0, 0.0, 0.0, 0.0]])) == 0
    assert entropy(torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])) == pytest.approx(0.25)


def with_features(context, features):
    return replace(context, subject=replace(context.subject, function=features), _cache={})


def test_images_at_the_identity_are_clear(perfect):
    context, _ = perfect
    result = Marginals().measure(context)
    assert result.scalars["ambiguity"] < 0.01
    assert result.scalars["modes"] == 1
    assert result.scalars["main_mode"] == pytest.approx(1.0, abs=0.02)
    assert "likely to help" in result.provenance["advice"]


class Phase(Group):
    """A picture of a phase, which it turns: exactly what features on a circle can show."""

    name, domain, channels = "phase", Circle(), 3

    def transform(self, images, g, generator=None):
        angle = 2 * torch.pi * g.view(-1, 1, 1)
        x, y = 2 * images[:, 0] - 1, 2 * images[:, 1] - 1
        turned = torch.stack([x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()], 1)
        return torch.cat([(turned + 1) / 2, images[:, 2:]], 1)


TURNING = Table(3, Axis("phase", 8, VonMises(0.1)))


def at_phases(phase, noise=0.0):
    """A context of images at these phases, read exactly or with an error of its own for every view."""
    phase, group = torch.as_tensor(phase, dtype=torch.float32), Phase()
    angle = 2 * torch.pi * phase
    pixels = torch.stack([(angle.cos() + 1) / 2, (angle.sin() + 1) / 2, torch.zeros_like(phase)], 1)
    images = pixels.view(-1, 3, 1, 1).expand(-1, -1, 2, 2).contiguous()
    generator = torch.Generator().manual_seed(3)

    def features(images):
        x, y = (2 * images[:, channel, 0, 0] - 1 for channel in (0, 1))
        g = torch.atan2(y, x) / (2 * torch.pi) + noise * torch.randn(len(images), generator=generator)
        return TURNING.axes[0].target.log_masses(g.remainder(1), 8).repeat(1, 3)

    return make_context(Outsider(features, TURNING, {"phase": group}), images, group)


def test_images_at_all_elements_are_ambiguous():
    result = Marginals().measure(at_phases(torch.rand(400, generator=torch.Generator().manual_seed(0))))
    assert result.scalars["ambiguity"] > 0.9
    assert result.scalars["ambiguity_of_guesses"] > 0.9
    assert result.scalars["reading"] < 0.1
    assert result.scalars["reading_of_differences"] > 0.95
    assert "or the images have none" in result.provenance["advice"]
    # Every image is sure, they only disagree.
    assert result.scalars["entropy_of_one_image"] < result.scalars["entropy"] - 0.1


@pytest.mark.parametrize(("upright", "words"), [(0.6, "Some images already come"), (0.25, "Images come at many")])
def test_images_of_which_some_are_upright(upright, words):
    phase = torch.rand(400, generator=torch.Generator().manual_seed(0))
    phase[torch.rand(400, generator=torch.Generator().manual_seed(1)) < upright] = 0
    result = Marginals().measure(replace(at_phases(phase), sizes=replace(SMALL, images=200)))
    assert result.scalars["ambiguity"] == pytest.approx(1 - upright, abs=0.1)
    assert words in result.provenance["advice"]


def test_images_at_one_element_are_clear():
    result = Marginals().measure(at_phases(torch.zeros(400)))
    assert result.scalars["reading"] > 0.95
    assert "likely to help" in result.provenance["advice"]


@pytest.mark.parametrize(("noise", "words"), [(0.2, "too coarsely"), (10.0, "cannot read")])
def test_a_model_that_has_not_learned_blames_no_images(noise, words):
    result = Marginals().measure(at_phases(torch.zeros(400), noise))
    assert result.scalars["ambiguity_of_guesses"] >= CLEAR  # as if images came at many elements
    assert words in result.provenance["advice"]
    facts = {**result.provenance, **Phase().describe()}
    sentence = Marginals().sentence(replace(result, provenance=facts))
    assert words in sentence
    assert ("Ambiguity" in sentence) == (words == "too coarsely")


def test_reading_runs_from_chance_to_perfect():
    context = at_phases(torch.zeros(400))
    assert read_transformed(context, TURNING.axes[0]) == pytest.approx((1, 1), abs=0.02)
    assert read_transformed(at_phases(torch.zeros(400), 10.0), TURNING.axes[0]) == pytest.approx((0, 0), abs=0.1)


def test_an_unsure_model_is_told_from_ambiguous_images(perfect):
    context, _ = perfect
    result = Marginals().measure(with_features(context, lambda x: read_brightness(x, sharpness=0.2)))
    assert result.scalars["ambiguity"] > 0.5
    assert result.scalars["ambiguity_of_guesses"] < 0.05
    assert "train longer" in result.provenance["advice"]


def test_it_needs_a_table_and_an_upright(perfect, pixels):
    context, _ = perfect
    with pytest.raises(Inapplicable, match="rot4"):
        Marginals().measure(pixels)
    with pytest.raises(Inapplicable, match="upright"):
        Marginals().measure(replace(context, subject=replace(context.subject, relative=True), _cache={}))


@pytest.mark.parametrize("reading", [Reading(0.9, 0.9), Reading(0.5, 0.9), Reading(0.0, 0.05)])
def test_advice_is_one_sentence(reading):
    for pair in ((0.1, 0.1), (0.4, 0.1), (0.4, 0.4), (0.9, 0.9)):
        text = advice(*pair, "hue", reading)
        assert "hue" in text
        assert text.count(".") == 1
