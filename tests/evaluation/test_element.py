"""Arithmetic of elements, against numbers worked out by hand."""

import pytest
import torch

from duet.evaluation.element import (
    coordinates,
    from_coordinates,
    nearest_element,
    r_squared,
    raw_error,
    separation,
    unit_name,
)
from duet.groups import GROUPS


def test_the_circle_is_gone_round_the_short_way():
    found = separation(torch.tensor([0.9, 0.1, 0.6]), torch.tensor([0.1, 0.9, 0.5]), cyclic=True)
    torch.testing.assert_close(found, torch.tensor([-0.2, 0.2, 0.1]))


def test_the_interval_does_not_wrap():
    torch.testing.assert_close(separation(torch.tensor([0.9]), torch.tensor([0.1]), False), torch.tensor([0.8]))


@pytest.mark.parametrize(
    ("name", "true", "found", "error"),
    [
        ("rot360", 0.98, 0.02, 14.4),
        ("rot360", 0.5, 0.75, 90.0),
        ("brightness", 0.25, 0.5, 0.2),
        ("scale", 1.0, 0.5, 0.4),
    ],
)
def test_errors_are_in_the_raw_unit(name, true, found, error):
    assert float(raw_error(torch.tensor([true]), torch.tensor([found]), GROUPS[name])) == pytest.approx(error, abs=1e-4)


def test_r_squared_on_the_interval():
    # Residuals 0, 1, 0 and deviations from the mean -1, 0, 1: 1 - 1/2.
    assert r_squared(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 2.0, 2.0]), cyclic=False) == pytest.approx(0.5)


def test_r_squared_on_the_circle():
    true = torch.tensor([0.0, 0.25, 0.5, 0.75])
    assert r_squared(true, true + 1.0, cyclic=True) == pytest.approx(1)
    # Four points on the unit circle have total variance 4; a quarter turn off, each misses by sqrt 2: 1 - 8/4.
    assert r_squared(true, true + 0.25, cyclic=True) == pytest.approx(-1)


def test_r_squared_of_one_value_says_nothing():
    assert torch.isnan(torch.tensor(r_squared(torch.ones(3), torch.ones(3), cyclic=False)))


@pytest.mark.parametrize("cyclic", [True, False])
def test_coordinates_lead_back(cyclic):
    g = torch.tensor([0.0, 0.1, 0.6, 0.99])
    torch.testing.assert_close(from_coordinates(coordinates(g, cyclic), cyclic), g)


def test_predictions_beyond_the_interval_end_at_its_ends():
    assert from_coordinates(torch.tensor([[-3.0], [4.0]]), cyclic=False).tolist() == [0, 1]


def test_the_nearest_element():
    elements = torch.tensor([0.125, 0.375, 0.625, 0.875])
    assert nearest_element(torch.tensor([0.99, 0.01, 0.3, 0.74]), elements, cyclic=True).tolist() == [3, 0, 1, 2]
    assert nearest_element(torch.tensor([0.9]), torch.tensor([0.0, 0.5]), cyclic=False).tolist() == [1]


def test_units_become_names():
    assert [unit_name(unit) for unit in ("degrees", "relative width", "")] == ["degrees", "relative_width", "g"]
