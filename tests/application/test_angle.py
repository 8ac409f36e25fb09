"""Angles read off features: any, quarter turns alone, small tilts alone."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cosine

from duet import GROUPS, DuetError
from duet.application.angle import check_reading, estimate_rotation, judge_improvement
from duet.model import Confidence
from duet.model.confidence import doubt
from duet.representation import VonMises
from tests.conftest import confident, make_compass, random_encoder


def features_of(marginal):
    """Features of the compass whose P(g|x) is that: both rows hold the logits."""
    return torch.as_tensor(marginal).clamp(min=1e-30).log().float().repeat(1, 2)


def seen(degrees, shares=None):
    """P(g|x) of an image at an angle, or of one that may be at several."""
    g = (torch.tensor(degrees, dtype=torch.float64) / 360 + 0.5).remainder(1)
    masses = VonMises(0.2).masses(g, 8)
    return masses if shares is None else (torch.tensor(shares, dtype=masses.dtype) @ masses)[None]


def test_a_snapped_angle_is_the_nearest_quarter_turn():
    degrees = [0.0, 30, -40, 60, 100, 140, 175, -170, -100, -50]
    found = estimate_rotation(confident(make_compass()), features_of(seen(degrees)), snap=True)
    assert found.degrees.tolist() == [0, 0, 0, 90, 90, -180, -180, -180, -90, -90]


def test_between_two_peaks_the_larger_share_decides():
    """A plain reading is drawn to the other one a little, and so would a tilt be."""
    compass, marginal = confident(make_compass()), features_of(seen([0.0, 90, 180], [0.5, 0.1, 0.4]))
    assert 5 < abs(estimate_rotation(compass, marginal).degrees) < 15
    assert estimate_rotation(compass, marginal, snap=True).degrees.tolist() == [0]
    tilted = features_of(seen([8.0, 188], [0.6, 0.4]))
    assert estimate_rotation(compass, tilted, span=15).degrees.item() == pytest.approx(8, abs=2)


def test_the_probability_is_that_of_the_quarter_turn():
    compass = confident(make_compass())
    marginal = seen([40.0])
    curve = compass.confidence.curves["rot360"]
    found = estimate_rotation(compass, features_of(marginal), snap=True)
    expected = curve(doubt(marginal.float(), torch.tensor([0.5]), compass.layout.axes[0].target.domain, 0.125))
    assert found.probability.item() == pytest.approx(expected.item(), abs=1e-5)
    assert found.probability < estimate_rotation(compass, features_of(marginal)).probability


def test_a_model_of_quarter_turns_snaps_by_itself():
    compass = confident(make_compass(group="rot4"))
    g = GROUPS["rot4"].from_parameter(torch.tensor([-20.0, 70, 190, 275]))
    marginal = VonMises(0.2).masses(g, 8)
    plain, snapped = (estimate_rotation(compass, features_of(marginal), snap=snap) for snap in (False, True))
    assert plain.degrees.tolist() == snapped.degrees.tolist() == [0, 90, -180, -90]


@pytest.mark.parametrize("span", [5, 15, 40.5])
def test_a_tilt_is_the_one_whose_target_is_most_alike(span):
    """Against a search of SciPy's."""
    random = np.random.default_rng(0)
    marginals = random.dirichlet(np.full(8, 0.5), 12)
    found = estimate_rotation(make_compass(), features_of(marginals), sure=0, span=span)
    for marginal, degrees in zip(marginals, found.degrees.tolist(), strict=True):

        def loss(angle, marginal=marginal):
            return cosine(marginal, VonMises(0.2).masses(torch.tensor([angle / 360 + 0.5]).double(), 8)[0].numpy())

        parts = pairwise(np.linspace(-span, span, 9))
        found_by_search = [minimize_scalar(loss, bounds=ends, method="bounded") for ends in parts]
        best = min(found_by_search, key=lambda result: result.fun)
        assert abs(degrees) <= span + 1e-4
        assert degrees == pytest.approx(best.x, abs=0.11)


def test_small_tilts_are_read_finely():
    degrees = [-12.3, -3.25, 0.0, 0.5, 7.77, 14.0]
    found = estimate_rotation(confident(make_compass()), features_of(seen(degrees)), span=15)
    assert found.degrees.tolist() == pytest.approx(degrees, abs=0.06)
    assert found.sure.all()


def test_what_lies_beyond_the_range_is_not_sure_unless_all_is_wanted():
    compass, marginal = confident(make_compass()), features_of(seen([25.0, 90, 180, 10]))
    found = estimate_rotation(compass, marginal, span=15)
    assert found.degrees.tolist() == pytest.approx([15, 15, found.degrees[2].item(), 10], abs=0.06)
    assert found.sure.tolist() == [False, False, False, True]
    assert estimate_rotation(compass, marginal, sure=0, span=15).sure.all()


def test_a_flat_marginal_is_unsure_in_every_way():
    flat = features_of(torch.full((1, 8), 1 / 8))
    for options in ({}, {"snap": True}, {"span": 15}):
        assert not estimate_rotation(confident(make_compass()), flat, **options).sure.any()
        plain = estimate_rotation(make_compass(), flat, **options)
        assert not plain.sure.any()
        assert math.isnan(plain.probability)


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        (make_compass, {"sure": 2.0}, "from 0 to 1"),
        (make_compass, {"snap": True, "span": 15.0}, "give one of them"),
        (make_compass, {"span": 0.0}, "above 0 and below 180"),
        (make_compass, {"span": math.nan}, "above 0 and below 180"),
        (lambda: make_compass(group="rot4"), {"span": 15.0}, "knows quarter turns only"),
        (lambda: make_compass(group="rot4"), {}, "knows quarter turns only: leave out --any-angle"),
        (make_compass, {"sure": 0.9}, "cannot tell how sure it is"),
        (lambda: random_encoder(group=["scale"]), {}, "cannot tell a rotation"),
    ],
)
def test_what_cannot_be_read_is_one_line(encoder, options, message):
    with pytest.raises(DuetError, match=message) as caught:
        check_reading(encoder(), **{"sure": 0.0, "snap": False, "span": None, **options})
    assert "\n" not in str(caught.value)


def test_an_improvement_is_judged_by_half_the_angle():
    """Whatever the true tilt t is, the rest |t - r| is below |t| if the error is below |r| / 2."""
    compass = confident(make_compass())
    marginal = features_of(seen([0.3, 0.6, 1.5, -30, 90]))
    found = estimate_rotation(compass, marginal)
    judged = judge_improvement(compass, marginal, found)
    # Of this model's errors nine tenths of a share p lie below p / 2 degrees, where there is no doubt.
    expected = [min(0.99, abs(angle)) for angle in found.degrees.tolist()]
    assert judged.probability.tolist() == pytest.approx(expected, abs=0.02)
    assert judged.sure.tolist() == [False, False, True, True, True]
    assert judged.degrees.tolist() == found.degrees.tolist()


@given(st.floats(-180, 180), st.floats(-180, 180))
def test_what_becomes_worse_was_read_wrong_by_half_the_angle_or_more(tilt, read):
    def size(angle):
        return abs((angle + 180) % 360 - 180)

    if size(tilt - read) >= size(tilt) + 1e-6:
        assert size(read - tilt) >= size(read) / 2 - 1e-6


def test_a_model_that_does_not_know_its_errors_decides_quarter_turns_only():
    compass = confident(make_compass())
    plain = Confidence(compass.confidence.mean, compass.confidence.whitening, dict(compass.confidence.curves.items()))
    compass.add_confidence(plain)
    check_reading(compass, 0.9, snap=True, span=None)
    for options in ({"span": None}, {"span": 15.0}):
        with pytest.raises(DuetError, match="does not know how far off its angles are"):
            check_reading(compass, 0.95, snap=False, **options)
    check_reading(compass, 0, snap=False, span=None)
