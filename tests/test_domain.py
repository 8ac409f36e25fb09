"""Circle and interval: their arithmetic, against formulas written out and slow loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duet.domain import Circle, Interval, as_domain

CIRCLE, INTERVAL = Circle(), Interval()
BOTH = pytest.mark.parametrize("domain", [CIRCLE, INTERVAL], ids=["circle", "interval"])
domains = st.sampled_from([CIRCLE, INTERVAL])
elements = st.floats(0, 1, width=32)
numbers = st.floats(-50, 50, width=32)


def draw(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_bools_are_short_for_domains():
    assert as_domain(True) == CIRCLE
    assert as_domain(False) == INTERVAL
    for domain in (CIRCLE, INTERVAL):
        assert as_domain(domain) is domain
        assert as_domain(domain.cyclic) == domain
    assert CIRCLE != INTERVAL


def test_wrapping_by_hand():
    g = torch.tensor([-1.25, -0.25, 0.0, 0.75, 1.0, 2.5])
    assert CIRCLE.wrap(g).tolist() == [0.75, 0.75, 0, 0.75, 0, 0.5]
    assert INTERVAL.wrap(g).tolist() == [0, 0, 0, 0.75, 1, 1]


@given(domains, numbers)
def test_a_wrapped_number_is_an_element_and_stays(domain, number):
    g = domain.wrap(torch.tensor([number]))
    assert 0 <= float(g) <= 1
    assert float(g) < 1 or not domain.cyclic
    assert torch.equal(domain.wrap(g), g)


@given(numbers)
def test_on_the_circle_wrapping_moves_nothing(number):
    number = torch.tensor([number], dtype=torch.float64)
    assert float(CIRCLE.distance(CIRCLE.wrap(number), number)) < 1e-9


def test_just_below_zero_is_zero_and_not_one():
    assert CIRCLE.wrap(torch.tensor([-1e-10])).tolist() == [0]


def test_the_circle_is_gone_round_the_short_way():
    found = CIRCLE.difference(torch.tensor([0.9, 0.1, 0.6]), torch.tensor([0.1, 0.9, 0.5]))
    torch.testing.assert_close(found, torch.tensor([-0.2, 0.2, 0.1]))


def test_the_interval_does_not_wrap():
    torch.testing.assert_close(INTERVAL.difference(torch.tensor([0.9]), torch.tensor([0.1])), torch.tensor([0.8]))


@given(domains, elements, elements)
def test_a_difference_leads_from_one_to_the_other(domain, a, b):
    a, b = (torch.tensor([g], dtype=torch.float64) for g in (a, b))
    gap = domain.difference(a, b)
    assert float(domain.distance(domain.wrap(b + gap), a)) < 1e-9
    assert float(gap.abs()) <= (0.5 if domain.cyclic else 1)


@given(domains, elements, elements, elements)
def test_distance_is_a_distance(domain, a, b, c):
    a, b, c = (torch.tensor([g], dtype=torch.float64) for g in (a, b, c))
    assert float(domain.distance(a, a)) == 0
    assert float(domain.distance(a, b)) == pytest.approx(float(domain.distance(b, a)), abs=1e-12)
    assert float(domain.distance(a, c)) <= float(domain.distance(a, b) + domain.distance(b, c)) + 1e-12


def test_distances_by_hand():
    a, b = torch.tensor([0.0, 0.9, 0.2]), torch.tensor([1.0, 0.1, 0.7])
    torch.testing.assert_close(CIRCLE.distance(a, b), torch.tensor([0.0, 0.2, 0.5]))
    torch.testing.assert_close(INTERVAL.distance(a, b), torch.tensor([1.0, 0.8, 0.5]))


def test_grids_meet_no_element_twice_and_both_ends():
    assert CIRCLE.grid(4).tolist() == [0, 0.25, 0.5, 0.75]
    assert INTERVAL.grid(5).tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_a_grid_of_a_part_of_the_interval_and_always_all_of_the_circle():
    torch.testing.assert_close(INTERVAL.grid(3, (0.2, 0.6)), torch.tensor([0.2, 0.4, 0.6]))
    assert CIRCLE.grid(4, (0.2, 0.6)).tolist() == [0, 0.25, 0.5, 0.75]


@BOTH
@pytest.mark.parametrize("n", [2, 3, 7, 50])
def test_neighbours_on_a_grid_lie_equally_far_apart(domain, n):
    g = domain.grid(n)
    assert g.shape == (n,)
    gaps = domain.distance(g[1:], g[:-1])
    if domain.cyclic:
        gaps = torch.cat([gaps, domain.distance(g[:1], g[-1:])])
    torch.testing.assert_close(gaps, gaps[:1].expand_as(gaps), rtol=1e-4, atol=1e-6)


def test_the_basis_of_the_circle_is_fouriers():
    by = torch.tensor([0.0, 0.1, -0.3], dtype=torch.float64)
    for number, row in zip(by.tolist(), CIRCLE.basis(by, CIRCLE.terms(2)).tolist(), strict=True):
        a = 2 * math.pi * number
        assert row == pytest.approx([1, math.cos(a), math.cos(2 * a), math.sin(a), math.sin(2 * a)])


def test_the_basis_of_the_interval_is_powers():
    by = torch.tensor([0.0, 0.5, -0.3], dtype=torch.float64)
    for number, row in zip(by.tolist(), INTERVAL.basis(by, INTERVAL.terms(3)).tolist(), strict=True):
        assert row == pytest.approx([1, number, number**2, number**3])


@BOTH
@pytest.mark.parametrize("order", [0, 1, 4])
def test_the_basis_has_as_many_functions_as_it_says(domain, order):
    values = domain.basis(draw(9), domain.terms(order))
    assert values.shape == (9, domain.terms(order))
    assert values.dtype == torch.float64
    assert torch.linalg.matrix_rank(values) == min(9, domain.terms(order))


@given(numbers)
def test_the_basis_of_the_circle_has_period_one(by):
    by = torch.tensor([by], dtype=torch.float64)
    torch.testing.assert_close(CIRCLE.basis(by, 7), CIRCLE.basis(by + 1, 7), rtol=0, atol=1e-9)


@given(domains, st.lists(elements, min_size=1, max_size=5))
def test_coordinates_lead_back(domain, g):
    g = torch.tensor(g, dtype=torch.float64)
    point = domain.coordinates(g)
    assert point.shape == (len(g), 2 if domain.cyclic else 1)
    back = domain.from_coordinates(point)
    assert bool(((back >= 0) & (back <= 1)).all())
    assert float(domain.distance(back, g).max()) < 1e-9


@given(elements, st.floats(0.01, 100))
def test_on_the_circle_only_the_direction_of_a_prediction_counts(g, length):
    g = torch.tensor([g], dtype=torch.float64)
    assert float(CIRCLE.distance(CIRCLE.from_coordinates(length * CIRCLE.coordinates(g)), g)) < 1e-9


def test_predictions_beyond_the_interval_end_at_its_ends():
    assert INTERVAL.from_coordinates(torch.tensor([[-3.0], [4.0]])).tolist() == [0, 1]


def test_the_nearest_element():
    quarters = torch.tensor([0.125, 0.375, 0.625, 0.875])
    assert CIRCLE.nearest(torch.tensor([0.99, 0.01, 0.3, 0.74]), quarters).tolist() == [3, 0, 1, 2]
    halves = torch.tensor([0.0, 0.5])
    assert INTERVAL.nearest(torch.tensor([0.9]), halves).tolist() == [1]
    assert CIRCLE.nearest(torch.tensor([0.9]), halves).tolist() == [0]


@given(domains, elements, st.lists(elements, min_size=1, max_size=6))
def test_no_element_lies_nearer_than_the_nearest(domain, g, among):
    g, among = torch.tensor([g]), torch.tensor(among)
    found = among[domain.nearest(g, among)]
    assert float(domain.distance(g, found)) == min(float(domain.distance(g, one)) for one in among)


@pytest.mark.parametrize("n", range(1, 13))
@pytest.mark.parametrize("start", [0.0, 0.5])
def test_a_cyclic_group_has_as_many_differences_as_elements(n, start):
    found = CIRCLE.differences([(k + start) / n for k in range(n)])
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([k / n for k in range(n)], abs=1e-6)


@pytest.mark.parametrize("n", range(2, 8))
def test_on_the_interval_differences_have_signs(n):
    found = INTERVAL.differences([k / (n - 1) for k in range(n)])
    assert found.tolist() == pytest.approx([k / (n - 1) for k in range(1 - n, n)], abs=1e-6)


@BOTH
def test_without_elements_there_are_no_differences(domain):
    assert domain.differences([]).shape == (0,)


@pytest.mark.parametrize("bins", [1, 2, 3, 8])
def test_correlation_on_the_circle_is_that_of_a_slow_loop(bins):
    p, q = draw(4, bins), draw(4, bins, seed=1)
    slow = [
        [sum(a[i] * b[(i + k) % bins] for i in range(bins)) for k in range(bins)] for a, b in zip(p, q, strict=True)
    ]
    torch.testing.assert_close(CIRCLE.correlate(p, q), torch.tensor(slow, dtype=torch.float64))


@pytest.mark.parametrize("bins", [1, 2, 3, 8])
def test_correlation_on_the_interval_is_that_of_a_slow_loop(bins):
    p, q = draw(4, bins), draw(4, bins, seed=1)
    lags = range(1 - bins, bins)
    slow = [
        [sum(a[i] * b[i + k] for i in range(bins) if 0 <= i + k < bins) for k in lags]
        for a, b in zip(p, q, strict=True)
    ]
    torch.testing.assert_close(INTERVAL.correlate(p, q), torch.tensor(slow, dtype=torch.float64))


@BOTH
def test_a_correlation_of_distributions_is_one(domain):
    p, q = draw(5, 8).softmax(1), (100 * draw(5, 8, seed=1)).softmax(1)
    found = domain.correlate(p, q)
    assert bool((found >= 0).all())
    torch.testing.assert_close(found.sum(1), torch.ones(5, dtype=torch.float64))


def test_places_spread_out_by_hand():
    assert CIRCLE.spread_out(8, 4).tolist() == [0, 2, 4, 6]
    assert INTERVAL.spread_out(9, 3).tolist() == [0, 4, 8]


@given(domains, st.integers(1, 40), st.data())
def test_places_spread_out_are_different_places(domain, n, data):
    count = data.draw(st.integers(1, n))
    places = domain.spread_out(n, count).tolist()
    assert len(set(places)) == count
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] < n
    if count > 1 and not domain.cyclic:
        assert (places[0], places[-1]) == (0, n - 1)


def test_means_by_hand():
    masses, centres = torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]), torch.tensor([0.125, 0.375, 0.625])
    torch.testing.assert_close(INTERVAL.mean(masses, centres), torch.tensor([0.375, 0.375]))
    # Across the seam: half at 0.1 and half at 0.9 is 0, not 0.5.
    found = CIRCLE.mean(torch.tensor([[0.5, 0.5]]), torch.tensor([0.1, 0.9]))
    assert float(CIRCLE.distance(found, torch.zeros(1))) < 1e-6


@given(elements)
def test_the_mean_on_the_circle_turns_with_the_masses(by):
    masses, centres = draw(3, 8).pow(4), (torch.arange(8, dtype=torch.float64) + 0.5) / 8
    turned = CIRCLE.mean(masses, centres + by)
    assert float(CIRCLE.distance(turned, CIRCLE.mean(masses, centres) + by).max()) < 1e-9


def test_pieces_are_cut_off_on_the_interval_and_go_on_around_the_circle():
    assert INTERVAL.pieces(-0.25, 0.5) == [(0, 0.5)]
    assert INTERVAL.pieces(0.5, 1.25) == [(0.5, 1)]
    assert CIRCLE.pieces(0.25, 0.5) == INTERVAL.pieces(0.25, 0.5) == [(0.25, 0.5)]
    assert CIRCLE.pieces(-0.25, 0.5) == [(0, 0.5), (0.75, 1)]
    assert CIRCLE.pieces(0.5, 1.25) == [(0.5, 1), (0, 0.25)]
    assert CIRCLE.pieces(-1, 1.5) == [(0, 1)]
    assert CIRCLE.pieces(-60, 30, whole=360) == [(0, 30), (300, 360)]
