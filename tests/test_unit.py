"""Raw values as people write them."""

import math

import pytest

from duet.unit import in_unit, unit_name


def test_units_become_names():
    assert [unit_name(unit) for unit in ("degrees", "relative width", "")] == ["degrees", "relative_width", "g"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (9.46, "degrees", "9.5°"),
        (-12.4, "degrees", "\N{MINUS SIGN}12.4°"),
        (-0.04, "degrees", "0.0°"),
        (1.25, "factor", "1.25 factor"),
        (0.12345, "", "0.123"),
        (math.nan, "degrees", "unknown"),
    ],
)
def test_a_value_is_written_with_its_unit(value, unit, text):
    assert in_unit(value, unit) == text


def test_fewer_digits_and_no_word():
    assert in_unit(-0.4, "degrees", digits=0) == "0°"
    assert in_unit(1.25, "factor", short=True) == "1.25"
