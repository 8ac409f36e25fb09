"""The Lipschitz constant of Appendix A against a search, and the bound against the action itself."""

import itertools

import pytest
import torch
from scipy import optimize, stats

from duet.representation import Axis, Gaussian, Table, VonMises, act, equivariance_bound, lipschitz_action

GRID = torch.linspace(0, 1, 513, dtype=torch.float64)


def slopes(target, bins, g=GRID):
    """d/dg of the centred log masses by central differences: (K, bins)."""
    step = 1e-5

    def centred(g):
        log_masses = target.log_masses(g, bins)
        return log_masses - log_masses.mean(-1, keepdim=True)

    return (centred(g + step) - centred(g - step)) / (2 * step)


@pytest.mark.parametrize("sigma", [0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
def test_the_closed_form_equals_the_numerical_supremum(sigma):
    for bins in range(2, 33):
        supremum = slopes(Gaussian(sigma), bins).abs().max().item()
        assert lipschitz_action(Gaussian(sigma), bins) == pytest.approx(supremum, abs=1e-4)


@pytest.mark.parametrize(("sigma", "bins"), [(0.1, 2), (0.2, 8), (0.5, 32)])
def test_the_closed_form_equals_scipys_normal_distribution(sigma, bins):
    """mu'_(G-1)(0) of eq. muhat, from scipy's density and distribution function."""
    edges = torch.linspace(0, 1, bins + 1).double().numpy()
    areas = stats.norm.sf(edges[:-1], 0, sigma) - stats.norm.sf(edges[1:], 0, sigma)
    h = (stats.norm.pdf(edges[:-1], 0, sigma) - stats.norm.pdf(edges[1:], 0, sigma)) / areas
    assert lipschitz_action(Gaussian(sigma), bins) == pytest.approx(h[-1] - h.mean(), rel=1e-7)


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("bins", [2, 3, 4, 8, 17, 32])
def test_the_von_mises_constant_is_the_supremum(sigma, bins):
    target = VonMises(sigma)
    constant = lipschitz_action(target, bins)
    assert slopes(target, bins).abs().max().item() <= constant + 1e-4
    column = lambda g: -float(slopes(target, bins, torch.tensor([g]).double()).abs().max())  # noqa: E731
    starts = torch.linspace(0, 1 / bins, 9).tolist()
    best = max(
        -optimize.minimize_scalar(column, bounds=(low, high), method="bounded", options={"xatol": 1e-7}).fun
        for low, high in itertools.pairwise(starts)
    )
    assert constant == pytest.approx(best, abs=1e-4)


def test_the_extreme_column_that_is_steepest_changes_side_at_the_middle():
    """The paper's step max_j |mu'_j(g)| = mu'_(G-1)(g) holds for g <= 1/2 only; the constant does not depend on it."""
    left, right = slopes(Gaussian(0.2), 8, torch.tensor([0.25, 0.75], dtype=torch.float64)).abs()
    assert left.argmax() == 7
    assert right.argmax() == 0
    assert right[0] > right[7] + 0.01


@pytest.mark.parametrize("target", [Gaussian(0.1), Gaussian(0.3), VonMises(0.1), VonMises(0.3)])
def test_no_two_elements_are_further_apart_than_the_constant_allows(target):
    layout = Table(3, Axis("a", 8, target))
    constant = lipschitz_action(target, 8)
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(500, 24, dtype=torch.float64, generator=generator)
    a, b = torch.rand(2, 500, dtype=torch.float64, generator=generator)
    b = torch.where(torch.arange(500) % 2 == 0, b, a + 1e-4)
    moved = (act(z, layout, "a", a) - act(z, layout, "a", b)).abs().amax(-1)
    assert (moved <= constant * (a - b).abs() * (1 + 1e-9)).all()
    assert (moved / (a - b).abs()).max() > 0.9 * constant


def test_the_bound_grows_with_the_distance_to_the_nearest_seen_element():
    seen = torch.tensor([0.1, 0.5])
    bound = equivariance_bound(2.0, 3.0, 4.0, torch.tensor([0.1, 0.2, 0.45, 0.95]), seen)
    torch.testing.assert_close(bound, 10 * torch.tensor([0.0, 0.1, 0.05, 0.45]))
    around = equivariance_bound(2.0, 3.0, 4.0, 0.95, seen, cyclic=True)
    assert around.item() == pytest.approx(10 * 0.15, abs=1e-6)
    with pytest.raises(ValueError, match="at least one seen element"):
        equivariance_bound(1.0, 1.0, 1.0, 0.5, torch.tensor([]))


def test_one_bin_has_no_action():
    with pytest.raises(ValueError, match="at least 2 bins"):
        lipschitz_action(Gaussian(0.2), 1)
