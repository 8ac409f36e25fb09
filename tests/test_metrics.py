"""EquivarianceSpectrum: known harmonics, no matter in which order and batches views come, on images of its own."""

import math

import numpy as np
import pytest
import torch

from duet.groups import GROUPS
from duet.metrics import HELD_OUT, EquivarianceSpectrum
from duet.representation import Spectrum

from .representation.test_spectrum import features


def flat(z, g):
    """(N, V, D), (N, V) -> what a trainer would update with."""
    ids = torch.arange(len(z)).repeat_interleave(z.shape[1])
    return z.flatten(0, 1), ids, g.flatten()


def computed(z, ids, g, batch=10_000, **options):
    metric = EquivarianceSpectrum(**options)
    for part in torch.split(torch.arange(len(ids)), batch):
        metric.update(z[part], ids[part], g[part])
    return metric.compute()


@pytest.fixture(scope="module")
def views():
    return features(images=600, views=4, noise=0.2)


def test_it_finds_the_harmonics_that_features_were_built_of(views):
    found = computed(*flat(*views), group="rot360")
    assert found["invariant_dimensions"] == pytest.approx(5, abs=0.4)
    for k, planes in {1: 4, 2: 3, 3: 2, 4: 0}.items():
        assert found[f"capacity_{k}"] == pytest.approx(planes / 1.04, abs=0.3)
    assert found["equivariant_planes"] == pytest.approx(sum(found[f"capacity_{k}"] for k in (1, 2, 3, 4)))
    assert found["equivariant_dimensions"] == pytest.approx(2 * found["equivariant_planes"])
    assert found["median_difference_error"] < 0.02
    assert found["median_difference_error_degrees"] == pytest.approx(360 * found["median_difference_error"])
    assert found["constant_difference_error_degrees"] == 90
    assert all(isinstance(value, float) for value in found.values())


def test_it_is_the_spectrum_of_the_other_images(views):
    z, g = views
    found = computed(*flat(z, g))
    held = np.arange(len(z)) % HELD_OUT == HELD_OUT - 1
    spectrum = Spectrum.fit(z[~held], g[~held])
    errors = []
    for image in np.flatnonzero(held):
        # Which views stand beside each other is left to the metric: all pairs of an image are as good.
        for v in range(4):
            for w in range(v):
                by = float(spectrum.difference(z[image, v : v + 1], z[image, w : w + 1]).g)
                apart = by - float(g[image, w] - g[image, v])
                errors.append(abs(apart - round(apart)))
    assert found["median_difference_error"] == pytest.approx(float(np.median(errors)), rel=0.15)
    # A view of an image moves the moments by rounding only, whatever order its views come in.
    for k in spectrum.harmonics:
        assert found[f"capacity_{k}"] == pytest.approx(spectrum.capacity(k), abs=1e-9)


def test_capacities_come_from_some_images_and_errors_from_others(views):
    z, g = views
    before = computed(*flat(z, g))
    held = torch.arange(len(z)) % HELD_OUT == HELD_OUT - 1
    blurred = z.clone()
    blurred[held] = torch.randn(blurred[held].shape, generator=torch.Generator().manual_seed(0), dtype=z.dtype)
    after = computed(*flat(blurred, g))
    assert after["capacity_1"] == before["capacity_1"]
    assert after["median_difference_error"] > 5 * before["median_difference_error"]


def test_order_and_batches_do_not_matter(views):
    z, ids, g = flat(*views)
    ids = ids * 37 - 400  # any whole numbers, in any order
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(1))
    assert computed(z, ids, g) == computed(z[order], ids[order], g[order], batch=97)


def test_of_unequal_numbers_of_views_as_many_as_the_fewest_are_taken(views):
    z, ids, g = flat(*views)
    kept = torch.ones(len(ids), dtype=torch.bool)
    kept[::7] = False
    fewest = int(torch.bincount(ids[kept]).min())
    assert fewest in (2, 3)
    found = computed(z[kept], ids[kept], g[kept])
    order = torch.randperm(int(kept.sum()), generator=torch.Generator().manual_seed(2))
    assert found == computed(z[kept][order], ids[kept][order], g[kept][order])
    assert found["capacity_1"] == pytest.approx(4 / 1.04, abs=0.3)


def test_a_finite_group_has_its_characters_and_an_accuracy():
    elements = GROUPS["rot4"].elements
    z, g = features(images=600, views=3, noise=0.1, planes={1: 2, 2: 1}, elements=elements)
    found = computed(*flat(z, g), group="rot4")
    assert found == {**computed(*flat(z, g), elements=elements), **{k: found[k] for k in found if "degrees" in k}}
    assert found["difference_accuracy"] > 0.99
    assert found["median_difference_error"] == 0
    assert found["constant_difference_error_degrees"] == 90
    assert "capacity_3" not in found
    # Of the character that is its own conjugate the plane is two dimensions, of the others two each too.
    assert found["equivariant_planes"] == pytest.approx(2, abs=0.2)
    assert found["equivariant_dimensions"] == pytest.approx(6, abs=0.4)


def test_it_starts_anew_after_a_reset(views):
    z, ids, g = flat(*views)
    metric = EquivarianceSpectrum()
    metric.update(z, ids, g)
    first = metric.compute()
    metric.reset()
    with pytest.warns(UserWarning, match="before"), pytest.raises(ValueError, match="no views yet"):
        metric.compute()
    metric.update(z, ids, g)
    assert metric.compute() == first


GOOD = (torch.randn(16, 4), torch.arange(16) // 2, torch.rand(16))


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ((GOOD[0][0], *GOOD[1:]), r"\(B, D\)"),
        ((GOOD[0].long(), *GOOD[1:]), "floating numbers"),
        ((GOOD[0], GOOD[1][:3], GOOD[2]), r"ids must be \(16,\)"),
        ((GOOD[0], GOOD[1].float(), GOOD[2]), "whole numbers"),
        ((GOOD[0], GOOD[1], GOOD[2] * 360), r"in \[0, 1\]"),
        ((GOOD[0], GOOD[1], GOOD[2] * math.nan), r"in \[0, 1\]"),
        ((GOOD[0] * math.inf, *GOOD[1:]), "NaN or infinity"),
        ((GOOD[0], torch.arange(16), GOOD[2]), "16 of 16 images have one view only"),
        ((GOOD[0][:6], GOOD[1][:6], GOOD[2][:6]), "at least 8 images, not 3"),
    ],
)
def test_what_are_no_views_is_refused_in_one_line(views, message):
    metric = EquivarianceSpectrum()

    def score():
        metric.update(*views)
        metric.compute()

    with pytest.raises(ValueError, match=message) as raised:
        score()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "grayscale"}, "no spectrum"),
        ({"group": "hue"}, "no spectrum"),
        ({"group": "rot36"}, "did you mean"),
        ({"group": "rot4", "elements": (0.0, 0.5)}, "its own elements"),
        ({"harmonics": 0}, "harmonics start at 1"),
        ({"ridge": -1.0}, "must not be negative"),
    ],
)
def test_what_cannot_be_scored_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        EquivarianceSpectrum(**options)


def test_features_of_another_width_are_refused():
    metric = EquivarianceSpectrum()
    metric.update(*GOOD)
    with pytest.raises(ValueError, match="5 features, and 4"):
        metric.update(torch.randn(16, 5), *GOOD[1:])
