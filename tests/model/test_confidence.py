"""How sure a model is: laws of the curve and of the known range, each beside a slow oracle."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import OAS

from duet.domain import Circle, Interval
from duet.error import DuetError
from duet.groups import GROUPS
from duet.model.confidence import (
    KNOWN_SHARE,
    TOLERANCE,
    Confidence,
    Curve,
    Judged,
    doubt,
    is_right,
    shrunken_covariance,
    tolerance,
)

numbers = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12)


def curve_of(doubts, probabilities):
    doubts = sorted({round(value, 3) for value in doubts})
    values = sorted((probabilities * len(doubts))[: len(doubts)], reverse=True)
    return Curve(torch.tensor(doubts), torch.tensor(values), 0.125)


def judged(n=4000, images=400, seed=0):
    """Readings that are right with the probability 1 - doubt, independent but for what one image shares."""
    generator = torch.Generator().manual_seed(seed)
    uneasy = torch.rand(n, generator=generator)
    right = torch.rand(n, generator=generator) > uneasy
    return Judged(uneasy, right, torch.arange(n) % images, 0.125)


def normal(n, dim=6, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(dim, dim, generator=torch.Generator().manual_seed(99))
    return scale * torch.randn(n, dim, generator=generator) @ mixing + 3


@given(numbers, numbers, numbers)
def test_a_curve_is_straight_between_its_knots_and_flat_beyond(doubts, probabilities, at):
    curve = curve_of(doubts, probabilities)
    expected = np.interp(at, curve.doubts.double(), curve.probabilities.double())
    assert np.allclose(curve(torch.tensor(at)), expected, atol=1e-5)


@given(numbers, numbers, numbers)
def test_more_doubt_is_never_more_probable(doubts, probabilities, at):
    found = curve_of(doubts, probabilities)(torch.tensor(sorted(at)))
    assert bool((found.diff() <= 0).all())
    assert bool(((found >= 0) & (found <= 1)).all())


def pooled(shares, weights):
    """Pool adjacent violators, by hand: the falling sequence nearest to the shares."""
    blocks = []
    for share, weight in zip(shares, weights, strict=True):
        blocks.append([share, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, m, i), (b, n, j) = blocks.pop(-2), blocks.pop()
            blocks.append([(a * m + b * n) / (m + n), m + n, i + j])
    return [share for share, _, count in blocks for _ in range(count)]


def cautious(right, image):
    """The share less its standard error, where the readings of one image stand or fall together."""
    share = (sum(right) + 0.5) / (len(right) + 1)
    surplus = {own: sum(r - share for r, i in zip(right, image, strict=True) if i == own) for own in set(image)}
    return share - math.sqrt(sum(value**2 for value in surplus.values())) / len(right)


def test_the_fit_is_isotonic_regression_of_cautious_shares():
    data = judged(n=400, images=50)
    curve = Curve.fit(data)
    order = sorted(range(400), key=data.doubt.tolist().__getitem__)
    parts = [order[start : start + 20] for start in range(0, 400, 20)]
    shares = [cautious([int(data.right[i]) for i in part], [int(data.image[i]) for i in part]) for part in parts]
    knots = [sum(float(data.doubt[i]) for i in part) / len(part) for part in parts]
    assert curve.doubts.tolist() == pytest.approx(knots, abs=1e-6)
    assert curve.probabilities.tolist() == pytest.approx([max(0, s) for s in pooled(shares, [20] * 20)], abs=1e-6)


def test_probabilities_come_true():
    curve, fresh = Curve.fit(judged(10_000)), judged(10_000, seed=1)
    said = curve(fresh.doubt)
    for low in (0.1, 0.3, 0.5, 0.7):
        some = (said >= low) & (said < low + 0.2)
        assert float(fresh.right[some].float().mean()) == pytest.approx(float(said[some].mean()), abs=0.06)


def test_what_few_images_show_is_said_with_caution():
    """The same readings, of many images or of few: views of one image are no more evidence than the image."""
    many, few = judged(images=4000), judged(images=20)
    right = torch.rand(20, generator=torch.Generator().manual_seed(5)) > 0.3
    few = few._replace(right=right[few.image])
    many = many._replace(right=few.right)
    assert float(Curve.fit(few).probabilities.mean()) < float(Curve.fit(many).probabilities.mean()) - 0.02


@pytest.mark.parametrize("right", [True, False])
def test_nothing_is_certain(right):
    data = judged(n=200)._replace(right=torch.full((200,), right))
    found = Curve.fit(data).probabilities
    assert float(found.max()) < 1
    assert float(found.mean()) == pytest.approx(float(right), abs=0.05)


def test_equal_doubts_are_one_knot():
    data = judged(n=300)._replace(doubt=torch.full((300,), 0.25))
    assert len(Curve.fit(data).doubts) == 1


@settings(max_examples=50)
@given(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=9),
    st.floats(0, 1),
    st.floats(0.02, 0.5),
    st.sampled_from([Circle(), Interval()]),
)
def test_doubt_is_the_mass_beyond(masses, g, within, domain):
    """Each bin's mass laid out evenly over the bin, and counted where it is farther from g than `within`.

    A window that ends twice in one bin, or meets itself at the far side of the circle, is not followed so closely.
    """
    p = torch.tensor(masses, dtype=torch.float64)
    p /= p.sum()
    fine = 4000
    points = (torch.arange(fine * len(p), dtype=torch.float64) + 0.5) / (fine * len(p))
    far = domain.distance(points, torch.tensor(g, dtype=torch.float64)) > within
    width = 1 / len(p)
    expected = float((p.repeat_interleave(fine) / fine * far).sum())
    found = float(doubt(p.unsqueeze(0), torch.tensor([g], dtype=torch.float64), domain, within))
    plain = within >= width / 2 and (domain.name != "circle" or within + width / 2 <= 0.5 - width / 2)
    assert found == pytest.approx(expected, abs=1e-3 if plain else float(p.max()))
    assert 0 <= found <= 1


def test_what_is_right():
    circle, quarter, flip = GROUPS["rot360"], GROUPS["rot4"], GROUPS["hflip"]
    assert tolerance(circle) == TOLERANCE == 1 / 8
    found, truth = torch.tensor([0.05, 0.95, 0.3]), torch.tensor([0.95, 0.8, 0.2])
    assert is_right(found, truth, circle).tolist() == [True, False, True]
    assert tolerance(quarter) == pytest.approx(1 / 8)
    first, second = quarter.elements[:2]
    near = torch.tensor([first + 0.12, first + 0.13, first - 0.12])
    assert is_right(near % 1, torch.full((3,), first), quarter).tolist() == [True, False, True]
    assert is_right(torch.tensor([second]), torch.tensor([first]), quarter).tolist() == [False]
    assert tolerance(flip) == pytest.approx(1 / 4)
    assert tolerance(GROUPS["grayscale"]) == pytest.approx(1 / 2)
    low, high = GROUPS["scale"].drawn_range()
    assert tolerance(GROUPS["scale"]) == pytest.approx((high - low) / 8)
    assert low > 0.2


def test_the_covariance_is_shrunk_as_scikit_learn_does():
    z = normal(60, 20).double()
    assert np.allclose(shrunken_covariance(z), OAS().fit(z.numpy()).covariance_, rtol=1e-9)


@pytest.mark.parametrize("z", [torch.zeros(50, 4), torch.ones(1, 4), torch.randn(50, 1).expand(-1, 4)])
def test_features_that_do_not_fill_their_space_have_an_inverse_too(z):
    found = Confidence.fit(z, [z + 1e-3 * torch.randn_like(z)], {})
    assert bool(torch.isfinite(found.whitening).all())
    assert bool((found.strangeness(z + 100 * torch.tensor([1.0, -1.0, 2.0, 0.0])) > 1).all())


def test_strangeness_is_the_mahalanobis_distance_over_that_of_most_held_out_ones():
    z, held, strange = normal(500), normal(200, seed=1), normal(20, seed=2, scale=5.0)
    found = Confidence.fit(z, [held], {})
    inverse = np.linalg.inv(OAS().fit(z.double().numpy()).covariance_)
    mean = z.double().mean(0).numpy()
    by_hand = {
        name: np.sqrt(np.einsum("ni,ij,nj->n", rows - mean, inverse, rows - mean))
        for name, rows in (("held", held.double().numpy()), ("strange", strange.double().numpy()))
    }
    cut = np.quantile(by_hand["held"], KNOWN_SHARE)
    assert np.allclose(found.strangeness(strange), by_hand["strange"] / cut, rtol=1e-3)
    assert float((found.strangeness(held) <= 1).float().mean()) == pytest.approx(KNOWN_SHARE, abs=0.006)
    assert float((found.strangeness(strange) <= 1).float().mean()) < 0.2


def test_most_of_every_kind_of_held_out_images_is_known():
    kinds = [normal(200, seed=1), normal(100, seed=2, scale=1.5)]
    found = Confidence.fit(normal(500), kinds, {})
    shares = [float((found.strangeness(kind) <= 1).float().mean()) for kind in kinds]
    assert shares[0] > shares[1] == pytest.approx(KNOWN_SHARE, abs=0.011)


def test_it_comes_back_equal():
    before = Confidence.fit(normal(100), [normal(50, seed=1)], {"rot360": judged(n=200)})
    tensors = {"mean": before.mean, "whitening": before.whitening}
    after = Confidence.from_dict(before.to_dict(), tensors, 6)
    assert after.axes == ("rot360",)
    ours, theirs = before.state_dict(), after.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    with pytest.raises(DuetError, match="of 6 features in a layout of 7"):
        Confidence.from_dict(before.to_dict(), tensors, 7)


@pytest.mark.parametrize(
    ("doubts", "probabilities", "within"),
    [
        ([], [], 0.1),
        ([0.1], [0.5, 0.4], 0.1),
        ([0.1, 0.1], [0.5, 0.4], 0.1),
        ([0.2, 0.1], [0.5, 0.4], 0.1),
        ([0.1, 0.2], [0.4, 0.5], 0.1),
        ([0.1, 0.2], [1.1, 0.5], 0.1),
        ([0.1, 0.2], [0.5, math.nan], 0.1),
        ([0.1, math.inf], [0.5, 0.4], 0.1),
        ([0.1], [0.5], 0.0),
        ([0.1], [0.5], math.nan),
    ],
)
def test_knots_that_make_no_curve_are_refused_in_one_line(doubts, probabilities, within):
    with pytest.raises(DuetError, match="the knots of a confidence") as caught:
        Curve(torch.tensor(doubts), torch.tensor(probabilities), within)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mean", "whitening"),
    [
        (torch.zeros(3), torch.zeros(3, 2)),
        (torch.zeros(2, 2), torch.zeros(4, 4)),
        (torch.zeros(3), torch.eye(3).double()),
        (torch.zeros(3).long(), torch.eye(3).long()),
        (torch.zeros(3), torch.full((3, 3), math.nan)),
        (torch.full((3,), math.inf), torch.eye(3)),
    ],
)
def test_tensors_that_do_not_fit_are_refused_in_one_line(mean, whitening):
    with pytest.raises(DuetError, match="the tensors of a confidence"):
        Confidence(mean, whitening, {})


def test_features_that_are_no_numbers_are_never_known():
    found = Confidence.fit(normal(100), [normal(50, seed=1)], {})
    assert not bool((found.strangeness(torch.full((1, 6), math.nan)) <= 1).any())
    with pytest.raises(DuetError, match="NaN or infinity"):
        Confidence.fit(torch.full((10, 3), math.nan), [torch.zeros(3, 3)], {})
    with pytest.raises(DuetError, match="one reading or more"):
        Curve.fit(Judged(*(torch.empty(0) for _ in range(3)), 0.1))
