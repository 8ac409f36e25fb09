"""Errors of elements, against numbers worked out by hand."""

import math

import pytest
import torch

from duet.domain import Circle, Interval
from duet.evaluation.element import r_squared, raw_error
from duet.groups import GROUPS


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
    true, found = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 2.0, 2.0])
    assert r_squared(true, found, Interval()) == r_squared(true, found, cyclic=False) == pytest.approx(0.5)


def test_r_squared_on_the_circle():
    true = torch.tensor([0.0, 0.25, 0.5, 0.75])
    assert r_squared(true, true + 1.0, cyclic=True) == pytest.approx(1)
    # Four points on the unit circle have total variance 4; a quarter turn off, each misses by sqrt 2: 1 - 8/4.
    assert r_squared(true, true + 0.25, Circle()) == r_squared(true, true + 0.25, cyclic=True) == pytest.approx(-1)


def test_r_squared_of_one_value_says_nothing():
    assert math.isnan(r_squared(torch.ones(3), torch.ones(3), cyclic=False))
