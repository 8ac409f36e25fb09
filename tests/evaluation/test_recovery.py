"""Reading the element off the features."""

from dataclasses import replace

import pytest
import scipy.stats
import torch

from duet.domain import as_domain
from duet.evaluation.element import errors
from duet.evaluation.probe import linear_probe
from duet.evaluation.recovery import (
    Recovery,
    _other_places,
    calibration,
    difference_errors,
    rank_correlation,
    spectrum_difference_errors,
)
from duet.evaluation.subject import Outsider
from duet.groups import GROUPS, find_group
from duet.representation import Axis, Table, VonMises

from .conftest import make_context, read_brightness


def generator():
    return torch.Generator().manual_seed(0)


def test_errors_of_an_angle_by_hand():
    true, found = torch.tensor([0.5, 0.5, 0.99]), torch.tensor([0.5, 0.6, 0.01])
    scalars = errors(true, found, GROUPS["rot360"])  # 0, 36 and 7.2 degrees
    assert scalars["median_error_degrees"] == pytest.approx(7.2, abs=1e-3)
    assert scalars["mean_error_degrees"] == pytest.approx(14.4, abs=1e-3)
    assert "accuracy" not in scalars


def test_the_median_of_an_even_number_is_between_the_middle_two():
    scalars = errors(torch.zeros(2), torch.tensor([0.0, 0.1]), GROUPS["brightness"])
    assert scalars["median_error_factor"] == pytest.approx(0.04)


def test_a_finite_group_has_an_accuracy():
    true = torch.tensor([0.125, 0.375, 0.625, 0.875])
    found = torch.tensor([0.02, 0.45, 0.55, 0.2])  # the last one is nearest to 0.125
    assert errors(true, found, GROUPS["rot4"], "probe_")["probe_accuracy"] == 0.75


def test_a_constant_offset_leaves_differences_right():
    g = torch.arange(10) / 10
    for name in ("rot360", "rot4"):
        found = (g + 0.3).remainder(1).unsqueeze(1).expand(10, 4)
        error = difference_errors(g.unsqueeze(1).expand(10, 4), found, GROUPS[name], generator())
        assert float(error.mean()) == pytest.approx(0, abs=1e-3)


def test_difference_errors_by_hand():
    # Two elements, so every pair is (0, 1/2) or (1/2, 0): true difference a half, found 0.4 either way.
    found = torch.tensor([[0.0, 0.2], [0.4, 0.6]])
    true = torch.tensor([[0.0, 0.0], [0.5, 0.5]])
    error = difference_errors(true, found, GROUPS["brightness"], generator())
    assert float(error.median()) == pytest.approx(0.08)
    error = difference_errors(true, found, GROUPS["rot360"], generator())
    assert float(error.median()) == pytest.approx(36, abs=1e-3)


def test_a_normal_error_of_its_own_spread_is_calibrated():
    spread = torch.rand(100_000, generator=generator()) + 0.5
    error = (spread * torch.randn(100_000, generator=torch.Generator().manual_seed(1))).abs()
    found = calibration(error, spread)
    assert found["within_one_spread"] == pytest.approx(0.683, abs=0.01)
    assert found["spread_ratio"] == pytest.approx(1, abs=0.01)
    assert found["spread_correlation"] > 0.1
    cautious = calibration(error, 4 * spread)
    assert cautious["within_one_spread"] > 0.99
    assert cautious["spread_ratio"] == pytest.approx(0.25, abs=0.01)


def test_calibration_by_hand():
    found = calibration(torch.tensor([1.0, 1.0, 3.0, 1.0]), torch.tensor([2.0, 2.0, 2.0, 0.0]))
    assert found["within_one_spread"] == 0.5
    assert found["spread_ratio"] == 1.0


def test_rank_correlation_is_spearmans():
    a, b = torch.rand(50, generator=generator()), torch.randint(5, (50,), generator=generator())
    assert rank_correlation(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-9)
    assert rank_correlation(a, torch.ones(50)) == 0.0


@pytest.mark.parametrize("cyclic", [True, False])
def test_the_probe_finds_what_is_linear(cyclic):
    g = torch.rand(300, generator=generator())
    mixing = torch.randn(2 if cyclic else 1, 6, generator=generator())
    z = as_domain(cyclic).coordinates(g) @ mixing + 0.01 * torch.randn(300, 6, generator=generator())
    found = linear_probe(z[:200], g[:200], z[200:], cyclic)
    assert float(as_domain(cyclic).distance(found, g[200:]).max()) < 0.03


def test_the_probe_cannot_find_what_is_not_there():
    z, g = torch.randn(400, 6, generator=generator()), torch.rand(400, generator=generator())
    found = linear_probe(z[:200], g[:200], z[200:], cyclic=False)
    assert float(((found - g[200:]) ** 2).mean()) > 0.9 * float(g[200:].var())


def test_an_exact_table_is_read_exactly(perfect):
    context, _ = perfect
    result = Recovery().measure(context)
    assert result.scalars["median_error_factor"] < 0.005
    assert result.scalars["r2"] > 0.999
    assert result.scalars["median_difference_error_factor"] < 0.005
    assert result.scalars["constant_median_error_factor"] == pytest.approx(0.2, abs=0.03)
    assert result.arrays["recovered"].shape == (16, 12)
    assert result.arrays["shown_marginal"].shape == (6, 8)


def test_content_that_holds_no_g_gives_it_away_to_no_probe(perfect):
    context, _ = perfect
    scalars = Recovery().measure(context).scalars
    assert scalars["probe_median_error_factor"] < 0.02
    assert scalars["content_probe_median_error_factor"] > 0.15


def test_content_that_holds_g_is_caught(perfect):
    context, _ = perfect

    def leak(images):
        return read_brightness(images) + images.mean((1, 2, 3)).unsqueeze(1)

    leaky = replace(context, subject=replace(context.subject, function=leak), _cache={})
    assert Recovery().measure(leaky).scalars["content_probe_median_error_factor"] < 0.02


def quadrant_masses(images):
    """A table for angles from the direction of the brightest half: good enough to know a quarter turn from none."""
    size = images.shape[-1]
    y, x = torch.meshgrid(torch.linspace(1, -1, size), torch.linspace(-1, 1, size), indexing="ij")
    direction = torch.stack([(images * part).sum((1, 2, 3)) for part in (x, y)], 1)
    g = (torch.atan2(direction[:, 1], direction[:, 0]) / (2 * torch.pi) + 0.5).remainder(1)
    return VonMises(0.2).log_masses(g, 8).repeat(1, 2)


@pytest.fixture
def compass():
    """Images with a bright right side: their direction is their angle."""
    ramp = torch.linspace(0, 1, 16).expand(60, 1, 16, 16) * (0.5 + 0.5 * torch.rand(60, 1, 1, 1, generator=generator()))
    layout = Table(2, Axis("rot360", 8, VonMises(0.2)))
    group = find_group("rot360")
    subject = Outsider(quadrant_masses, layout, {"rot360": group}, digest="compass")
    return make_context(subject, ramp.contiguous(), group)


def test_rotations_are_read_with_both_kinds_of_corners(compass):
    scalars = Recovery().measure(compass).scalars
    for suffix in ("", "_circle"):
        assert scalars[f"median_error_degrees{suffix}"] < 3
        assert f"content_probe_median_error_degrees{suffix}" in scalars
    assert scalars["constant_median_error_degrees"] == pytest.approx(90, abs=12)


def test_a_relative_reference_is_judged_by_differences_only(compass):
    turned = replace(
        compass,
        subject=replace(compass.subject, relative=True, function=lambda x: quadrant_masses(x).roll(3, 1)),
        _cache={},
    )
    result = Recovery().measure(turned)
    assert "median_error_degrees" not in result.scalars
    assert "r2" not in result.scalars
    assert result.scalars["median_difference_error_degrees"] < 3
    # What is kept is counted from the untouched image, whatever the origin.
    assert torch.tensor(result.arrays["recovered"] - result.arrays["g"][:, None]).abs().median() < 0.02


def test_a_relative_reference_is_compared_by_differences(compass):
    turned = replace(compass, subject=replace(compass.subject, relative=True), _cache={})
    result = Recovery().measure(turned)
    claim = Recovery().claim(replace(result, provenance={**result.provenance, **turned.provenance()}))
    assert (claim.key, claim.rival) == ("median_difference_error_degrees", "spectrum_median_difference_error_degrees")
    assert claim.chance == result.scalars["constant_median_difference_error_degrees"]
    assert claim.rival in result.intervals
    assert Recovery().measure(replace(compass, _cache={})).scalars[claim.rival] == result.scalars[claim.rival]


def test_the_spectrum_tells_the_differences_of_the_same_pairs(compass):
    orbit = compass.orbit()
    found = spectrum_difference_errors(compass.spectrum, orbit, compass.generator("differences"))
    other = _other_places(*orbit.g.shape, compass.generator("differences"))
    for view, image in ((0, 0), (3, 5), (-1, 7)):
        goal = other[view, image]
        told = compass.spectrum.difference(orbit.z[view, image][None], orbit.z[goal, image][None]).g
        away = float(told - (orbit.g[goal, image] - orbit.g[view, image]))
        assert float(found[view, image]) == pytest.approx(360 * abs(away - round(away)), abs=0.01)
    still = orbit.g[:1].expand_as(orbit.g)
    apart = difference_errors(orbit.g, still, orbit.group, compass.generator("differences"))
    step = 360 * (orbit.g.gather(0, other) - orbit.g).abs()
    assert torch.allclose(apart, torch.minimum(step, 360 - step), atol=1e-3)


def test_features_without_a_table_have_a_probe_only(pixels):
    scalars = Recovery().measure(pixels).scalars
    assert "median_error_degrees" not in scalars
    assert "probe_accuracy" in scalars
    assert scalars["constant_accuracy"] == 0.25
