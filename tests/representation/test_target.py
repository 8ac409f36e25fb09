"""Targets against quadrature, their peaks, and distributions of differences."""

import itertools
import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from duet.domain import Circle
from duet.representation import Gaussian, VonMises, difference, target_from_dict

TARGETS = [Gaussian, VonMises]
SIGMAS = [0.02, 0.05, 0.2, 0.5, 10.0]
BINS = [2, 3, 8, 64]
EDGES = [0.0, 1.0, 0.5, 0.25, 1 / 3, 0.0371, 0.7123]


def exponent(target, x, g):
    """log density up to a constant."""
    if target.cyclic:
        return target.kappa * (math.cos(2 * math.pi * (x - g)) - 1)
    return -(((x - g) / target.sigma) ** 2) / 2


def quadrature_masses(target, g, bins):
    """SciPy's adaptive quadrature of the density over every bin, with the peak marked."""
    density = lambda x: math.exp(exponent(target, x, g))  # noqa: E731
    peaks = [g - 1, g, g + 1] if target.cyclic else [g]
    marks = [p + s * k for p in peaks for s in (-target.sigma, 0, target.sigma) for k in (1, 4)]
    areas = []
    for j in range(bins):
        low, high = j / bins, (j + 1) / bins
        points = sorted({m for m in marks if low < m < high})
        areas.append(integrate.quad(density, low, high, points=points or None, epsabs=1e-13, epsrel=1e-10)[0])
    total = math.fsum(areas)
    return torch.tensor([a / total for a in areas], dtype=torch.float64)


def precise_log_mass(target, g, bins, j):
    """log of one bin's integral over that of the whole, with 25 digits; every piece is scaled by its largest value."""

    def log_integral(low, high, pieces):
        at = [mpmath.mpf(low) + (mpmath.mpf(high) - low) * k / pieces for k in range(pieces + 1)]
        if target.cyclic:
            power = lambda x: mpmath.mpf(target.kappa) * (mpmath.cos(2 * mpmath.pi * (x - g)) - 1)  # noqa: E731
        else:
            power = lambda x: -(((x - g) / mpmath.mpf(target.sigma)) ** 2) / 2  # noqa: E731
        total = mpmath.mpf(0)
        top = max(power(x) for x in at)
        for a, b in itertools.pairwise(at):
            total += mpmath.quad(lambda x: mpmath.exp(power(x) - top), [a, b])
        return mpmath.log(total) + top

    with mpmath.workdps(25):
        return float(log_integral(j / mpmath.mpf(bins), (j + 1) / mpmath.mpf(bins), 8) - log_integral(0, 1, 64))


def circular(error):
    return (error - error.round()).abs()


@pytest.mark.parametrize("bins", BINS)
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("make", TARGETS)
def test_masses_equal_quadrature(make, sigma, bins):
    target = make(sigma=sigma)
    elements = EDGES if bins < 64 else EDGES[::3]
    expected = torch.stack([quadrature_masses(target, g, bins) for g in elements])
    g = torch.tensor(elements, dtype=torch.float64)
    torch.testing.assert_close(target.masses(g, bins), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(target.masses(g.float(), bins), expected.float(), atol=1e-5, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(TARGETS), st.floats(0.02, 10), st.integers(2, 64), st.floats(0, 1))
def test_masses_equal_quadrature_at_random(make, sigma, bins, g):
    target = make(sigma=sigma)
    at = torch.tensor([g], dtype=torch.float64)
    expected = quadrature_masses(target, g, bins)
    torch.testing.assert_close(target.masses(at, bins)[0], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(target.log_masses(at, bins).exp()[0], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("make", "sigma", "bins", "g", "j"),
    [
        (Gaussian, 0.02, 64, 0.0, 63),
        (Gaussian, 0.02, 64, 1.0, 0),
        (Gaussian, 0.02, 2, 0.05, 1),
        (Gaussian, 0.05, 8, 0.3, 7),
        (Gaussian, 10.0, 64, 0.5, 40),
        (VonMises, 0.02, 64, 0.0, 31),
        (VonMises, 0.02, 2, 0.25, 1),
        (VonMises, 0.02, 3, 0.0, 1),
        (VonMises, 0.05, 8, 0.3, 6),
        (VonMises, 0.2, 8, 0.9, 3),
    ],
)
def test_log_masses_are_exact_deep_in_the_tails(make, sigma, bins, g, j):
    target = make(sigma=sigma)
    expected = precise_log_mass(target, g, bins, j)
    double = target.log_masses(torch.tensor([g], dtype=torch.float64), bins)[0, j].item()
    single = target.log_masses(torch.tensor([g], dtype=torch.float32), bins)[0, j].item()
    assert double == pytest.approx(expected, rel=1e-11, abs=1e-11)
    assert single == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_gaussian_log_masses_are_differences_of_normal_cdfs():
    g = torch.linspace(0, 1, 11, dtype=torch.float64)
    edges = (torch.arange(9, dtype=torch.float64) / 8 - g[:, None]) / 0.2
    cdf = torch.from_numpy(special.ndtr(edges.numpy()))
    expected = (cdf[:, 1:] - cdf[:, :-1]) / (cdf[:, -1:] - cdf[:, :1])
    torch.testing.assert_close(Gaussian(0.2).log_masses(g, 8).exp(), expected, atol=1e-13, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", TARGETS)
@pytest.mark.parametrize("sigma", [0.02, 0.2, 10.0])
def test_masses_are_positive_sum_to_one_and_have_finite_gradients(make, sigma, dtype):
    target = make(sigma=sigma)
    for bins in BINS:
        g = torch.tensor([*EDGES, 0.5 / bins, 1 / bins], dtype=dtype, requires_grad=True)
        masses, log_masses = target.masses(g, bins), target.log_masses(g, bins)
        assert masses.dtype == log_masses.dtype == dtype
        assert masses.min() >= torch.finfo(dtype).tiny
        assert masses.log().isfinite().all()
        assert log_masses.isfinite().all()
        torch.testing.assert_close(masses.sum(-1), torch.ones_like(g), atol=1e-6, rtol=0)
        weights = torch.linspace(-1, 1, bins, dtype=dtype)
        for output in (masses, log_masses):
            (gradient,) = torch.autograd.grad((output * weights).sum(), g)
            assert gradient.isfinite().all()


@pytest.mark.parametrize("target", [Gaussian(0.1), Gaussian(0.3), VonMises(0.1), VonMises(0.3), VonMises(0.02)])
def test_gradients_of_masses(target):
    g = torch.tensor([0.0, 0.131, 0.5, 0.77, 1.0], dtype=torch.float64, requires_grad=True)
    for bins in (3, 8):
        assert torch.autograd.gradcheck(lambda g, bins=bins: target.masses(g, bins), g)
        # The deep tails of sigma 0.02 move by hundreds of nats, which a finite difference sees less well than we do.
        assert torch.autograd.gradcheck(lambda g, bins=bins: target.log_masses(g, bins), g, rtol=1e-3)
        assert torch.autograd.gradgradcheck(lambda g, bins=bins: target.masses(g, bins), g, rtol=1e-3, atol=1e-4)


def test_the_circle_closes():
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
    masses = VonMises(0.2).log_masses(ends, 8)
    torch.testing.assert_close(masses[0], masses[1], atol=1e-12, rtol=0)
    assert Circle().wrap(torch.tensor([-1e-9, 1.0, 0.25, -0.25])).tolist() == [0.0, 0.0, 0.25, 0.75]


def test_sigma_and_kappa_follow_the_paper():
    assert VonMises(sigma=0.2).kappa == pytest.approx(1 / (2 * math.pi * 0.04))
    assert VonMises(kappa=3.0).sigma == pytest.approx(1 / math.sqrt(6 * math.pi))
    assert VonMises() == VonMises(sigma=0.2)
    with pytest.raises(ValueError, match="disagree"):
        VonMises(sigma=0.2, kappa=3.0)
    for make in TARGETS:
        with pytest.raises(ValueError, match="sigma must be positive"):
            make(sigma=0.0)


@pytest.mark.parametrize("target", [Gaussian(0.15), VonMises(0.2), VonMises(kappa=3.0)])
def test_a_target_survives_plain_data(target):
    assert target_from_dict(target.to_dict()) == target
    with pytest.raises(ValueError, match="no target 'box'"):
        target_from_dict({"kind": "box"})


# --- estimate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [4, 5, 8, 16, 33, 64])
@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("make", TARGETS)
@pytest.mark.parametrize("method", ["fit", "match"])
def test_estimate_recovers_the_peak_of_the_target(method, make, sigma, bins, dtype):
    target = make(sigma=sigma)
    g = torch.cat([torch.linspace(0, 1, 1001, dtype=dtype), torch.tensor([1e-5, 1 - 1e-5], dtype=dtype)])
    estimate = target.estimate(target.masses(g, bins), method)
    error = estimate.g - g
    error = circular(error) if target.cyclic else error.abs()
    assert error.max() < (1e-4 if dtype == torch.float32 else 1e-7)
    assert estimate.g.min() >= 0
    assert (estimate.g < 1).all() if target.cyclic else (estimate.g <= 1).all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_estimate_is_the_maximum_likelihood_peak_of_any_masses(data):
    """A brute-force search never finds a better g."""
    target = data.draw(st.sampled_from(TARGETS))(sigma=data.draw(st.floats(0.1, 0.3)))
    bins = data.draw(st.integers(4, 24))
    raw = data.draw(st.lists(st.floats(0, 1), min_size=bins, max_size=bins))
    masses = torch.tensor([raw], dtype=torch.float64) + 1e-9
    masses = masses / masses.sum()
    likelihood = lambda g: (masses * target.log_masses(g, bins)).sum(-1)  # noqa: E731
    found = target.estimate(masses)
    best = likelihood(torch.linspace(0, 1, 4001, dtype=torch.float64)).max()
    assert likelihood(found.g) >= best - 1e-6
    assert found.spread.isfinite()
    affinity = lambda g: (masses * target.masses(g, bins)).sqrt().sum(-1)  # noqa: E731
    best = affinity(torch.linspace(0, 1, 4001, dtype=torch.float64)).max()
    assert affinity(target.estimate(masses, "match").g) >= best - 1e-6


@pytest.mark.parametrize("target", [Gaussian(0.06), VonMises(0.06)])
def test_mass_far_away_moves_a_match_less_than_the_likeliest(target):
    """A tenth of the mass elsewhere: the likeliest g goes there, as a mean would; the nearest target hardly does."""
    g = torch.tensor([0.3, 0.31, 0.5], dtype=torch.float64)
    masses = 0.9 * target.masses(g, 16) + 0.1 * target.masses(g + 0.2, 16)
    fit, match = ((target.estimate(masses, method).g - g).abs().max() for method in ("fit", "match"))
    assert match < 0.01
    assert fit > 0.015
    assert torch.allclose(target.read(masses.log()).g, target.estimate(masses, "match").g)


def test_the_mean_is_biased_where_the_fit_is_not():
    g = torch.tensor([0.05, 0.95], dtype=torch.float64)
    target = Gaussian(0.2)
    assert (target.estimate(target.masses(g, 8), method="mean").g - g).abs().min() > 0.02
    on_circle = VonMises(0.2)
    h = torch.tensor([0.05], dtype=torch.float64)
    barycentre = on_circle.estimate(on_circle.masses(h, 3), method="mean").g
    angle = torch.angle((on_circle.masses(h, 3) * torch.exp(2j * math.pi * (torch.arange(3) + 0.5) / 3)).sum(-1))
    torch.testing.assert_close(barycentre, Circle().wrap(angle / (2 * math.pi)))
    assert circular(barycentre - h) > 1e-3
    with pytest.raises(ValueError, match="no method 'mode'"):
        target.estimate(target.masses(g, 8), method="mode")


def test_spread_is_the_standard_deviation_about_the_peak():
    one_hot = torch.eye(8, dtype=torch.float64)[3:4]
    assert VonMises(0.2).estimate(one_hot).spread.item() == pytest.approx(0, abs=1e-6)
    uniform = torch.full((1, 64), 1 / 64, dtype=torch.float64)
    assert Gaussian(0.2).estimate(uniform).g.item() == pytest.approx(0.5, abs=1e-6)
    for target in (Gaussian(0.2), VonMises(0.2)):  # a circle seen from any point is the interval seen from its middle
        assert target.estimate(uniform).spread.item() == pytest.approx(1 / math.sqrt(12), abs=1e-3)
    two = torch.zeros(1, 64, dtype=torch.float64)
    two[0, 0] = two[0, 63] = 0.5  # neighbours across the seam of the circle
    near = VonMises(0.2).estimate(two)
    assert near.spread.item() == pytest.approx(0.5 / 64, abs=1e-6)
    assert circular(near.g).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("target", [Gaussian(0.1), VonMises(0.1)])
def test_two_modes_give_the_larger_one_and_a_large_spread(target):
    g = torch.tensor([0.2, 0.7], dtype=torch.float64)
    each = target.masses(g, 32)
    mixed = (0.8 * each[0] + 0.2 * each[1]).unsqueeze(0)
    one, both = target.estimate(each[:1]), target.estimate(mixed)
    assert both.spread > 1.5 * one.spread
    if target.cyclic:  # the interval's likelihood is concave: its peak lies between the modes
        assert circular(both.g - 0.2) < 0.1
    else:
        assert 0.2 <= both.g <= 0.4


@pytest.mark.parametrize("method", ["fit", "match"])
def test_estimate_takes_zeros_ties_and_extremes_without_an_exception(method):
    for target in (Gaussian(0.02), Gaussian(0.2), VonMises(0.02), VonMises(0.2), Gaussian(10.0), VonMises(10.0)):
        assert target.estimate(torch.zeros(1, 8), method).g.isfinite().all()
        masses = torch.cat([torch.eye(8), torch.full((1, 8), 0.125), torch.eye(8)[[0, 3]] * 0.5 + torch.eye(8)[[7, 4]]])
        masses.requires_grad_()
        estimate = target.estimate(masses, method)
        assert estimate.g.isfinite().all()
        assert estimate.spread.isfinite().all()
        (gradient,) = torch.autograd.grad(estimate.g.sum() + estimate.spread.sum(), masses)
        assert gradient.isfinite().all()
        assert target.estimate(torch.zeros(0, 8)).g.shape == (0,)


@pytest.mark.parametrize("make", [Gaussian, VonMises])
def test_among_elements_the_true_one_is_found_and_another_peak_does_not_count(make):
    target, among = make(0.1), torch.tensor([0.2, 0.45, 0.7, 0.95])
    assert target.estimate(target.masses(among, 8), among=among).g.tolist() == pytest.approx(among.tolist())
    near = target.estimate(target.masses(among - 0.06, 8), among=among)
    assert near.g.tolist() == pytest.approx(among.tolist())
    two = target.masses(torch.tensor([0.2, 0.7]), 8).T @ torch.tensor([0.55, 0.45])
    assert target.estimate(two[None], among=among).g.item() == pytest.approx(0.2)
    assert target.estimate(two[None], among=among[1:]).g.item() == pytest.approx(0.7)


def test_a_circle_needs_three_bins():
    with pytest.raises(ValueError, match="a circle needs at least 3 bins"):
        VonMises(0.2).estimate(torch.full((1, 2), 0.5))
    assert Gaussian(0.2).estimate(torch.full((1, 2), 0.5)).g.item() == pytest.approx(0.5)


@pytest.mark.parametrize("target", [Gaussian(0.2), VonMises(0.2)])
def test_estimate_has_the_gradient_of_the_peak(target):
    logits = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    for method in ("fit", "match"):
        assert torch.autograd.gradcheck(
            lambda x, method=method: target.estimate(x.softmax(-1), method).g, logits, atol=1e-4
        )


def test_a_table_made_in_inference_mode_serves_a_later_backward_pass():
    target = Gaussian(0.21734)  # no other test has made this table
    with torch.inference_mode():
        target.estimate(torch.rand(2, 8))
    logits = torch.randn(2, 8, requires_grad=True)
    target.estimate(logits.softmax(-1)).g.sum().backward()
    assert logits.grad.isfinite().all()


def test_autocast_leaves_the_estimate_alone():
    target = VonMises(0.2)
    masses = target.masses(torch.linspace(0, 0.9, 10), 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = target.estimate(masses).g
    assert torch.equal(inside, target.estimate(masses).g)


# --- difference ---------------------------------------------------------------------------------------------------


def slow_difference(p, q, cyclic):
    batch, bins = p.shape
    out = torch.zeros(batch, bins if cyclic else 2 * bins - 1, dtype=p.dtype)
    for i in range(bins):
        for j in range(bins):
            out[:, (j - i) % bins if cyclic else j - i + bins - 1] += p[:, i] * q[:, j]
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.booleans(), st.integers(0, 10**6))
def test_difference_equals_a_double_loop(bins, cyclic, seed):
    generator = torch.Generator().manual_seed(seed)
    p, q = ((8 * torch.randn(3, bins, generator=generator, dtype=torch.float64)).softmax(-1) for _ in "pq")
    result = difference(p, q, cyclic)
    torch.testing.assert_close(result, slow_difference(p, q, cyclic), atol=1e-12, rtol=0)
    torch.testing.assert_close(result.sum(-1), torch.ones(3, dtype=torch.float64))
    assert difference(p.float(), q.float(), cyclic).min() >= 0


@pytest.mark.parametrize("make", TARGETS)
def test_sharp_marginals_peak_at_the_lag_of_their_difference(make):
    target, bins = make(sigma=0.03), 16
    first, second = torch.tensor([3, 12, 5]), torch.tensor([7, 2, 5])
    marginal = lambda j: target.masses((j + 0.5) / bins, bins)  # noqa: E731
    found = difference(marginal(first), marginal(second), target.cyclic).argmax(-1)
    wanted = target.difference_masses((second - first) / bins, bins).argmax(-1)
    expected = (second - first) % bins if target.cyclic else second - first + bins - 1
    assert found.tolist() == wanted.tolist() == expected.tolist()


@pytest.mark.parametrize("bins", [3, 8])
@pytest.mark.parametrize("make", TARGETS)
def test_difference_masses_equal_quadrature(make, bins):
    target = make(sigma=0.2)
    wide = VonMises(kappa=target.kappa / 2) if target.cyclic else Gaussian(0.2 * math.sqrt(2))
    lags = range(bins) if target.cyclic else range(1 - bins, bins)
    for delta in (-0.7, -0.25, 0.0, 0.4, 0.93):
        density = lambda x, delta=delta: math.exp(exponent(wide, x, delta))  # noqa: E731
        areas = [integrate.quad(density, (k - 0.5) / bins, (k + 0.5) / bins)[0] for k in lags]
        expected = torch.tensor(areas, dtype=torch.float64) / math.fsum(areas)
        result = target.difference_masses(torch.tensor([delta], dtype=torch.float64), bins)[0]
        torch.testing.assert_close(result, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("cyclic", [True, False])
def test_difference_has_finite_gradients(cyclic):
    p = torch.eye(6, dtype=torch.float64)[:3].requires_grad_()
    q = torch.rand(3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, q: difference(p, q, cyclic), (p, q))
    delta = torch.tensor([0.0, 0.3, -0.9], dtype=torch.float64, requires_grad=True)
    target = VonMises(0.1) if cyclic else Gaussian(0.1)
    assert torch.autograd.gradcheck(lambda d: target.difference_masses(d, 6), delta)


def test_difference_refuses_marginals_of_two_shapes():
    with pytest.raises(ValueError, match="one shape"):
        difference(torch.rand(2, 4), torch.rand(2, 5), cyclic=True)


@pytest.mark.parametrize("target", [Gaussian(0.2), VonMises(0.2), VonMises(0.02)])
def test_targets_trace_into_one_graph(target):
    torch._dynamo.reset()
    compile = lambda f: torch.compile(f, backend="eager", fullgraph=True)  # noqa: E731
    g = torch.rand(5)
    masses = target.masses(g, 8)
    torch.testing.assert_close(compile(lambda g: target.masses(g, 8))(g), masses)
    torch.testing.assert_close(compile(lambda m: target.estimate(m).g)(masses), target.estimate(masses).g)
    torch.testing.assert_close(
        compile(lambda p, q: difference(p, q, target.cyclic))(masses, masses),
        difference(masses, masses, target.cyclic),
    )
