"""The bars of P(g|x): a fixed scale, on which equal bins are drawn equal and low."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duet.explorer.chart import draw_chart, scale_top
from duet.explorer.model import Marginal, Spread
from duet.groups import GROUPS
from duet.representation import Axis, Gaussian, VonMises

ROTATION = Axis("rot360", 8, VonMises(0.2))


def chart_of(masses, parameter=None, spread=None, axis=ROTATION):
    return draw_chart(Marginal(list(masses), parameter, spread), axis, GROUPS[axis.name])


def test_equal_bins_stand_on_the_line_that_says_knows_nothing():
    chart = chart_of([1 / 8] * 8)
    heights = {round(height, 6) for _, _, height, _ in chart.bars}
    assert heights == {round(chart.even, 6)}
    assert chart.even == pytest.approx(100 * 0.125 / 0.75)
    assert chart.bars[0][3] == "12.5 %"
    assert chart.line is None
    assert chart.band == []


@given(st.lists(st.floats(0.01, 1), min_size=8, max_size=8))
def test_heights_are_probabilities_on_one_scale_from_zero(weights):
    masses = [weight / sum(weights) for weight in weights]
    chart, top = chart_of(masses), scale_top(masses, ROTATION)
    assert top in (0.75, 1.0)
    assert (top == 1.0) == (max(masses) > 0.75)
    for (_, _, height, _), mass in zip(chart.bars, masses, strict=True):
        assert height / 100 * top == pytest.approx(mass)
        assert height <= 100 + 1e-6
    assert chart.levels[0] == (0.0, "0 %")
    assert chart.levels[-1] == (pytest.approx(100), f"{100 * top:g} %")


@pytest.mark.parametrize("bins", [3, 8, 32, 100])
@pytest.mark.parametrize("target", [VonMises(0.2), VonMises(0.05), Gaussian(0.2)])
def test_the_scale_holds_a_perfect_answer_at_any_g(bins, target):
    axis = Axis("rot360", bins, target)
    top = scale_top([1 / bins] * bins, axis)
    inside = torch.linspace(0.3, 0.7, 41)
    assert float(target.masses(inside, bins).max()) <= top + 1e-3
    assert top <= 1


def test_a_value_has_its_line_and_its_shade_around_the_circle():
    chart = chart_of([1 / 8] * 8, parameter=170.0, spread=Spread(36.0, 30.0, 104.0))
    assert chart.line == pytest.approx(100 * 350 / 360)
    assert sum(high - low for low, high in chart.band) == pytest.approx(20)
    assert [round(low, 1) for low, _ in chart.band] == [87.2, 0.0]


def test_ticks_are_the_elements_of_a_finite_group_else_evenly_apart():
    quarter = chart_of([1 / 8] * 8, axis=Axis("rot4", 8, VonMises(0.2)))
    assert [text for _, text in quarter.ticks] == ["0°", "90°", "180°", "270°"]
    assert [at for at, _ in quarter.ticks] == pytest.approx([12.5, 37.5, 62.5, 87.5])
    assert [text for _, text in chart_of([1 / 8] * 8).ticks] == [
        "\N{MINUS SIGN}180°",
        "\N{MINUS SIGN}90°",
        "0°",
        "90°",
        "180°",
    ]
