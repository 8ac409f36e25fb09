"""The spectrum as an evaluation: on features whose harmonics are known."""

import math

import numpy as np
import pytest
import torch

from duet.data import MemoryImages
from duet.evaluation import Context, Inapplicable, Sizes
from duet.evaluation.spectrum import Harmonics, difference_errors, draw_purities
from duet.evaluation.subject import Outsider
from duet.groups import find_group
from duet.model import has_spectrum, orbit_views, spectrum_of
from duet.representation import Flat, Spectrum

SIZES = Sizes(images=20, few=4, sweep=12, copies=12, queries=2, probe=200, views=4)


class Known:
    """Features of an image whose first pixel is its number and whose second is its element: known harmonics of it."""

    def __init__(self, turning=(1, 1, 2), invariant=2, noise=0.05):
        generator = torch.Generator().manual_seed(0)
        self.turning, self.noise = turning, noise
        self.own = torch.randn(1000, len(turning), 2, generator=generator)
        self.still = torch.randn(1000, invariant, generator=generator)

    def __call__(self, images):
        number, g = (images[:, 0, 0, 0] * 1000).round().long(), images[:, 0, 0, 1]
        size, phase = self.own[number].unbind(2)
        angle = 2 * math.pi * torch.tensor(self.turning) * g.unsqueeze(1)
        planes = torch.stack([size * angle.cos() - phase * angle.sin(), size * angle.sin() + phase * angle.cos()], 2)
        z = torch.cat([planes.flatten(1), self.still[number]], 1)
        # The noise of a view is a function of it, so that features are the same each time.
        seeds = (number * 7919 + (g * 1e6).long()).tolist()
        noise = [torch.randn(z.shape[1], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        return z + self.noise * torch.stack(noise)


def turn_pixel(group, monkeypatch):
    """The group writes its element into the second pixel, and does nothing else."""

    def apply(images, g, generator=None):
        changed = images.float().clone()
        changed[:, 0, 0, 1] = torch.as_tensor(g, dtype=torch.float32)
        return changed

    monkeypatch.setattr(group, "apply", apply)
    return group


def make(monkeypatch, name="rot360", **known):
    group = turn_pixel(find_group(name), monkeypatch)
    numbers = torch.zeros(600, 1, 1, 2)
    numbers[:, 0, 0, 0] = torch.arange(600) / 1000
    labels = torch.arange(600) % 4
    features = Known(**known)
    dim = 2 * len(features.turning) + features.still.shape[1]
    subject = Outsider(features, Flat(dim), {name: group}, description={"method": "known"}, digest="known")
    train = MemoryImages("made", "train", numbers[:400], labels[:400])
    test = MemoryImages("made", "test", numbers[400:], labels[400:])
    return Context(subject, train, test, group, SIZES)


def test_known_harmonics_are_counted(monkeypatch):
    result = Harmonics().measure(make(monkeypatch))
    scalars = result.scalars
    assert scalars["invariant_dimensions"] == pytest.approx(2, abs=0.1)
    assert scalars["equivariant_planes"] == pytest.approx(3, abs=0.1)
    assert scalars["equivariant_dimensions"] == pytest.approx(6, abs=0.2)
    assert scalars["capacity_1"] == pytest.approx(2, abs=0.1)
    assert scalars["capacity_2"] == pytest.approx(1, abs=0.1)
    assert scalars["median_difference_error_degrees"] < 3
    assert scalars["median_difference_error_degrees_other_classes"] < 3
    low, high = result.intervals["median_difference_error_degrees"]
    assert low <= scalars["median_difference_error_degrees"] <= high
    assert scalars["constant_difference_error_degrees"] == 90


def test_a_quarter_turn_has_hits(monkeypatch):
    scalars = Harmonics().measure(make(monkeypatch, "rot4", turning=(1, 1))).scalars
    assert scalars["difference_accuracy"] == 1.0
    assert scalars["constant_difference_accuracy"] == 0.25
    assert scalars["equivariant_planes"] == pytest.approx(2, abs=0.1)


def test_the_sentence_says_how_many_ignore_and_how_many_turn(monkeypatch):
    result = Harmonics().measure(make(monkeypatch))
    facts = {**result.provenance, "title": "rotation", "unit": "degrees"}
    text = Harmonics().sentence(type(result)("spectrum", result.scalars, {}, facts))
    assert "2 dimensions ignore the rotation and 6 turn with it" in text


def test_errors_are_those_of_one_pair_at_a_time(monkeypatch):
    context = make(monkeypatch, noise=0.3)
    orbit, spectrum = context.orbit(), context.spectrum
    found = difference_errors(spectrum, orbit)
    for image in (0, 7):
        start = int(orbit.start[image])
        for place, goal in enumerate(orbit.goals()[:, image].tolist()):
            by = float(spectrum.difference(orbit.z[start, image][None], orbit.z[goal, image][None]).g)
            gap = by - float(orbit.g[goal, image] - orbit.g[start, image])
            assert float(found[place, image]) == pytest.approx(360 * abs(gap - round(gap)), abs=0.02)


def test_several_encoders_are_drawn_in_one_picture(monkeypatch):
    results = {name: Harmonics().measure(make(monkeypatch, noise=n)) for name, n in (("sharp", 0.05), ("dull", 1.0))}
    figure = draw_purities(results)
    lines = figure.axes[1].get_lines()
    assert [line.get_label() for line in lines[:2]] == ["sharp", "dull"]
    assert np.max(lines[0].get_ydata()) > np.max(lines[1].get_ydata())


@pytest.mark.parametrize(
    ("name", "turns"),
    [("rot360", True), ("rot4", True), ("hflip", True), ("brightness", False), ("grayscale", False), ("hue", False)],
)
def test_only_what_turns_has_a_spectrum(name, turns):
    assert has_spectrum(find_group(name)) is turns


def test_who_has_no_spectrum_says_so(perfect):
    context, _ = perfect
    with pytest.raises(Inapplicable, match="brightness is no group that turns, and so has no spectrum"):
        Harmonics().measure(context)
    assert set(context.actions) == {"prescribed", "fitted"}


def test_views_of_an_orbit_are_those_of_the_group():
    group, images = find_group("rot360"), torch.rand(10, 1, 8, 8)
    views = orbit_views(lambda x: x.flatten(1), images, group, views=3, seed=4, batch=7)
    assert views.z.shape == (10, 3, 64)
    for image in (0, 9):
        for view in range(3):
            expected = group.apply(images[image : image + 1], views.g[image, view : view + 1]).flatten()
            torch.testing.assert_close(views.z[image, view], expected, atol=1e-5, rtol=1e-4)
    assert len(set(views.g.flatten().tolist())) == 30  # none of them twice, none untouched
    assert isinstance(spectrum_of(views, group), Spectrum)
