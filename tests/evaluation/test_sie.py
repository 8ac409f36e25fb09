"""The protocol of SIE: each number against its definition."""

import math

import pytest
import torch

from duet.evaluation.sie import (
    SIE,
    held_out_pairs,
    linear,
    mlp,
    r_squared,
    retrieval,
    retrieval_error,
    target,
    training_pairs,
)
from duet.groups import find_group
from duet.model import OrbitViews

ROTATION, BRIGHTNESS = find_group("rot360"), find_group("brightness")


def quaternion(turns):
    """Of a rotation in the plane by so many turns: (cos, 0, 0, sin) of half the angle."""
    return torch.tensor([math.cos(math.pi * turns), 0.0, 0.0, math.sin(math.pi * turns)])


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.1, 0.35), (0.9, 0.05), (0.0, 0.5), (0.2, 0.21)])
def test_the_retrieval_error_is_that_of_quaternions(a, b):
    expected = 1 - float(quaternion(a) @ quaternion(b)) ** 2
    assert float(retrieval_error(torch.tensor(a), torch.tensor(b), ROTATION)) == pytest.approx(expected, abs=1e-6)


def test_on_the_interval_it_is_the_squared_distance():
    assert float(retrieval_error(torch.tensor(0.2), torch.tensor(0.7), BRIGHTNESS)) == pytest.approx(0.25)


def test_targets_are_differences():
    a, b = torch.tensor([0.9]), torch.tensor([0.15])
    angle = 2 * math.pi * 0.25
    assert target(a, b, ROTATION)[0].tolist() == pytest.approx([math.cos(angle), math.sin(angle)], abs=1e-6)
    assert target(a, b, BRIGHTNESS)[0].tolist() == pytest.approx([-0.75])


def test_pairs_are_two_views_of_one_image_and_never_one_twice():
    z = torch.arange(5.0).view(5, 1, 1) * 10 + torch.arange(3.0).view(1, 3, 1)
    views = OrbitViews(z, torch.rand(5, 3))
    pairs, _ = training_pairs(views, ROTATION, seed=0)
    assert pairs.shape == (15, 2)
    assert bool(((pairs[:, 0] / 10).floor() == (pairs[:, 1] / 10).floor()).all())
    assert bool((pairs[:, 0] != pairs[:, 1]).all())


def test_regressions_find_what_is_there():
    generator = torch.Generator().manual_seed(0)
    x, test = torch.randn(2000, 6, generator=generator), torch.randn(300, 6, generator=generator)
    weight = torch.randn(6, 2, generator=generator)
    straight = r_squared((test @ weight).double(), linear(x, (x @ weight).double(), test))
    assert straight > 0.999
    bent = [(part[:, :1] * part[:, 1:2]).double() for part in (x, test)]
    assert r_squared(bent[1], linear(x, bent[0], test)) < 0.1  # a product is not linear
    assert r_squared(bent[1], mlp(x, bent[0], test)) > 0.8
    assert r_squared(bent[1], mlp(x, bent[0][torch.randperm(2000)], test)) < 0.1  # and noise is noise


def test_r_squared_by_hand():
    wanted = torch.tensor([[0.0], [2.0]]).double()
    assert r_squared(wanted, wanted) == 1
    assert r_squared(wanted, torch.ones(2, 1).double()) == 0
    assert r_squared(wanted, wanted.flip(0)) == -3


def test_ranks_are_among_all_views_of_the_image(pixels):
    orbit = pixels.orbit()
    found = retrieval(orbit, pixels.fitted)  # quarter turns of pixels are exact
    assert found["h1"].shape == (12, 3)
    assert float(found["h1"].mean()) == 1
    assert float(found["pre"].max()) < 1e-6
    assert "h5" not in found  # four views: a hit always
    blind = retrieval(orbit, None)
    assert float(blind["h1"].mean()) == pytest.approx(0.25)
    assert float(blind["mrr"].mean()) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_the_whole_protocol(pixels, monkeypatch):
    monkeypatch.setattr("duet.evaluation.sie.EPOCHS", 2)
    result = SIE().measure(pixels)
    assert {"r2_linear", "r2_mlp", "mrr", "h1", "pre", "chance_mrr"} <= set(result.scalars)
    assert result.scalars["mrr"] == 1
    low, high = result.intervals["r2_linear"]
    assert low <= result.scalars["r2_linear"] <= high
    pairs, wanted = held_out_pairs(pixels.orbit())
    assert pairs.shape == (36, 32)
    assert wanted.shape == (36, 2)
