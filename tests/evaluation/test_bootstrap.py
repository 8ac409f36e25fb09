"""Intervals: against a slow loop, and against what is known of a mean."""

import numpy as np
import pytest
import torch

from duet import DuetError
from duet.evaluation.bootstrap import NORMAL, Bootstrap, Interval, wilson


def slow(values, statistic, draws=4000, seed=1):
    """The same by a loop: whole images are drawn with all their values."""
    generator = np.random.default_rng(seed)
    table = values.numpy().reshape(len(values), -1)
    found = [statistic(table[generator.integers(len(table), size=len(table))]) for _ in range(draws)]
    return np.quantile(found, [0.025, 0.975])


@pytest.fixture
def skewed():
    return torch.rand(60, 7, generator=torch.Generator().manual_seed(0)).double().pow(3) + torch.rand(60, 1)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_intervals_are_those_of_a_slow_loop(skewed, statistic):
    expected = slow(skewed, getattr(np, statistic))
    found = getattr(Bootstrap(60), statistic)(skewed)
    assert found == pytest.approx(expected, rel=0.04)


def test_a_ratio_is_of_sums_not_of_images():
    above = torch.rand(40, 3).double()
    below = torch.rand(40, 3).double() + 0.5
    both = torch.stack([above.sum(1), below.sum(1)], 1)
    expected = slow(both, lambda rows: rows[:, 0].sum() / rows[:, 1].sum())
    assert Bootstrap(40).ratio(above, below) == pytest.approx(expected, rel=0.04)


def test_the_interval_of_a_mean_is_two_standard_errors_wide():
    values = torch.randn(400, generator=torch.Generator().manual_seed(3)).double()
    low, high = Bootstrap(400).mean(values)
    assert high - low == pytest.approx(2 * 1.96 * float(values.std()) / 20, rel=0.08)
    assert low < float(values.mean()) < high


def test_an_image_is_drawn_whole():
    # A hundred equal values of an image are not a hundred observations.
    values = torch.randn(30, generator=torch.Generator().manual_seed(4)).double()
    few, many = Bootstrap(30).mean(values), Bootstrap(30).mean(values.unsqueeze(1).expand(-1, 100))
    assert many == pytest.approx(few)


def test_the_median_lies_within_and_equal_values_leave_no_doubt():
    values = torch.rand(50, 20).double()
    low, high = Bootstrap(50).median(values)
    assert low <= float(values.median()) <= high
    assert Bootstrap(50).median(torch.ones(50, 4)) == Interval(1.0, 1.0)


def test_the_same_seed_gives_the_same_and_another_nearly():
    values = torch.rand(80).double()
    assert Bootstrap(80, seed=5).mean(values) == Bootstrap(80, seed=5).mean(values)
    assert Bootstrap(80, seed=6).mean(values) != Bootstrap(80, seed=5).mean(values)


def test_pairs_are_compared_on_the_same_images():
    first = torch.rand(200).double() * 10
    second = first - 0.1  # far less apart than either varies
    low, high = Bootstrap(200).difference_of_shares(first, second)
    assert low == pytest.approx(0.1)
    assert high == pytest.approx(0.1)


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 30), (30, 30), (7, 20), (1, 500)])
def test_wilsons_interval_solves_its_equation(hits, n):
    # Both ends are the shares p that lie z standard deviations from what was seen: (seen - p)^2 = z^2 p (1 - p) / n.
    low, high = wilson(hits / n, n)
    squared = NORMAL**2 / n
    roots = np.roots([1 + squared, -(2 * hits / n + squared), (hits / n) ** 2]).real
    assert (low, high) == pytest.approx(tuple(sorted(roots)), abs=1e-6)
    assert 0 <= low <= hits / n <= high <= 1
    assert high - low > 0


def test_shares_of_none_and_of_all_have_an_interval_too():
    none, every = torch.zeros(40, 3), torch.ones(40, 3)
    assert Bootstrap(40).share(none) == wilson(0, 40)  # the values of an image are not independent
    assert Bootstrap(40).share(every) == wilson(1, 40)
    some = (torch.rand(40, 3) < 0.5).double()
    assert Bootstrap(40).share(some) == Bootstrap(40).mean(some)
    counted = torch.cat([torch.ones(10), torch.zeros(30)])
    assert Bootstrap(40).share_of(torch.zeros(40), counted) == wilson(0, 10)
    assert Bootstrap(40).share_of(torch.zeros(40), torch.zeros(40)) == (0, 1)


def test_a_difference_of_shares_is_never_certain():
    right, wrong = torch.ones(40).double(), torch.zeros(40).double()
    assert Bootstrap(40).difference_of_shares(right, right) == (-wilson(0, 40).high, wilson(0, 40).high)
    assert Bootstrap(40).difference_of_shares(right, wrong) == pytest.approx(wilson(1, 40))
    assert Bootstrap(40).difference_of_shares(wrong, right) == pytest.approx((-1, -wilson(1, 40).low))


def test_many_images_are_drawn_a_part_at_a_time(monkeypatch):
    values = torch.rand(50).double()
    whole = Bootstrap(50).mean(values)
    monkeypatch.setattr("duet.evaluation.bootstrap.CHUNK", 50 * 7)
    assert Bootstrap(50).mean(values) == pytest.approx(whole, rel=0.05)


def test_values_of_other_images_are_refused():
    with pytest.raises(DuetError, match="values of 3 images"):
        Bootstrap(4).mean(torch.rand(3))
    with pytest.raises(DuetError, match="no images"):
        Bootstrap(0)
