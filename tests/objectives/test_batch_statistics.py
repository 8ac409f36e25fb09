"""VICReg, Barlow Twins, SIGReg and TCR against slow formulas in NumPy, and what may not change them."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from scipy.stats import ortho_group

from duet.error import DuetError
from duet.objectives import barlow_twins, sigreg, tcr, vicreg
from duet.objectives.joined import smaller_gram

from .test_objectives import views

SLICES = 16


def slow_vicreg(parts, invariance=25.0, variance=25.0, covariance=1.0):
    """Two views; loops over features and their pairs."""
    first, second = parts
    n, dim = first.shape
    total = invariance * sum((first[i, d] - second[i, d]) ** 2 for i in range(n) for d in range(dim)) / (n * dim)
    for z in parts:
        total += variance * sum(max(0, 1 - math.sqrt(np.var(z[:, d], ddof=1) + 1e-4)) for d in range(dim)) / dim
        for i in range(dim):
            total += covariance * sum(np.cov(z[:, i], z[:, j])[0, 1] ** 2 for j in range(dim) if j != i) / dim
    return total


def slow_barlow_twins(parts, redundancy=5e-3, scale=0.1):
    """Two views; loops over pairs of features."""
    first, second = parts
    n, dim = first.shape
    total = 0.0
    for i in range(dim):
        for j in range(dim):
            a, b = first[:, i], second[:, j]
            covariance = sum((a[k] - a.mean()) * (b[k] - b.mean()) for k in range(n)) / n
            c = covariance / math.sqrt((np.var(a) + 1e-5) * (np.var(b) + 1e-5))
            total += (1 - c) ** 2 if i == j else redundancy * c**2
    return scale * total


def drawn_directions(dim, seed=0, slices=SLICES):
    """What SIGReg draws after torch.manual_seed(seed), in float64."""
    rows = torch.randn(slices, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).numpy()
    return [row / math.sqrt(sum(row**2)) for row in rows]


def epps_pulley(z, directions):
    """The integral by SciPy at the same nodes, with complex exponentials."""
    nodes = np.linspace(-3, 3, 10)
    found = []
    for direction in directions:
        phi = np.array([np.mean([np.exp(1j * t * (row @ direction)) for row in z]) for t in nodes])
        found.append(trapezoid(np.exp(-(nodes**2) / 2) * abs(phi - np.exp(-(nodes**2) / 2)) ** 2, nodes))
    return np.mean(found)


def slow_sigreg(parts, weight=10.0, seed=0):
    directions = drawn_directions(parts[0].shape[1], seed)
    difference = np.mean((parts[0] - parts[1]) ** 2)
    return difference + weight * np.mean([epps_pulley(z, directions) for z in parts])


def slow_tcr(parts, weight=200.0, eps=0.2):
    """Any number of views: the determinant of the D x D matrix."""
    parts = [np.stack([row / np.linalg.norm(row) for row in z]) for z in parts]
    n, dim = parts[0].shape
    total = 0.0
    for i in range(n):
        middle = sum(z[i] for z in parts)
        total -= weight * sum(z[i] @ middle / np.linalg.norm(middle) for z in parts) / (n * len(parts))
    for z in parts:
        matrix = np.eye(dim)
        for row in z:
            matrix += dim / (n * eps) * np.outer(row, row)
        total -= np.linalg.slogdet(matrix)[1] / 2 / len(parts)
    return total


SLOW = {"vicreg": slow_vicreg, "barlow_twins": slow_barlow_twins, "sigreg": slow_sigreg, "tcr": slow_tcr}


def seeded_sigreg(first, second, *others, seed=0, **options):
    torch.manual_seed(seed)
    return sigreg(first, second, *others, slices=SLICES, **options)


FAST = {"vicreg": vicreg, "barlow_twins": barlow_twins, "sigreg": seeded_sigreg, "tcr": tcr}
each = pytest.mark.parametrize("name", SLOW)
WEIGHTS = {
    "vicreg": {"invariance": 3.0, "variance": 5.0, "covariance": 7.0},
    "barlow_twins": {"redundancy": 0.7, "scale": 3.0},
    "sigreg": {"weight": 0.3},
    "tcr": {"weight": 2.0, "eps": 0.7},
}


def scattered(n, dim, seed=0):
    """Two views with a common mean, correlated features, and both more and less variance than 1."""
    first, second = views(n, dim, seed)
    mixing = torch.randn(dim, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1)) / dim**0.5
    common = views(n, dim, seed + 2)[0]
    return tuple((common + 0.5 * view) @ mixing + 0.3 for view in (first, second))


@each
@pytest.mark.parametrize("shape", [(2, 3), (9, 4), (5, 12), (6, 6)])
def test_the_value_is_the_formulas(name, shape):
    parts = scattered(*shape)
    arrays = [part.numpy() for part in parts]
    assert FAST[name](*parts).item() == pytest.approx(SLOW[name](arrays), rel=1e-9)
    options = WEIGHTS[name]
    assert FAST[name](*parts, **options).item() == pytest.approx(SLOW[name](arrays, **options), rel=1e-9)


@each
@pytest.mark.parametrize("shape", [(4, 3), (3, 5)])
def test_the_gradient_is_that_of_the_value(name, shape):
    first, second = (part.clone().requires_grad_() for part in scattered(*shape))
    third = views(*shape, seed=5)[0].requires_grad_()
    assert torch.autograd.gradcheck(FAST[name], (first, second))
    assert torch.autograd.gradcheck(FAST[name], (first, second, third))


@each
def test_the_order_of_the_images_does_not_matter(name):
    first, second = scattered(8, 5)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    value, turned = FAST[name](first, second), FAST[name](first[order], second[order])
    assert turned.item() == pytest.approx(value.item(), rel=1e-12)
    assert abs(FAST[name](first[order], second).item() - value.item()) > 1e-3 * abs(value.item())


def test_tcr_does_not_see_a_rotation_of_the_embedding():
    first, second = scattered(8, 5)
    rotation = torch.from_numpy(ortho_group.rvs(5, random_state=0))
    assert tcr(first @ rotation, second @ rotation).item() == pytest.approx(tcr(first, second).item(), rel=1e-12)
    assert tcr(3 * first, second / 7).item() == pytest.approx(tcr(first, second).item(), rel=1e-12)


def test_sigreg_is_least_for_a_normal_sample_and_large_for_a_collapsed_one():
    sample = views(20_000, 8)[0]
    assert 0 <= seeded_sigreg(sample, sample).item() < 0.01
    assert seeded_sigreg(2 * sample, 2 * sample).item() > 1
    nodes = np.linspace(-3, 3, 10)
    collapsed = trapezoid(np.exp(-(nodes**2) / 2) * (1 - np.exp(-(nodes**2) / 2)) ** 2, nodes)
    nothing = torch.zeros(6, 8)
    assert seeded_sigreg(nothing, nothing).item() == pytest.approx(10 * collapsed, rel=1e-6)


def test_sigreg_draws_new_directions_in_every_call_that_torch_seeds():
    first, second = scattered(8, 5)
    torch.manual_seed(3)
    found = [sigreg(first, second, slices=4).item() for _ in range(2)]
    torch.manual_seed(3)
    assert sigreg(first, second, slices=4).item() == found[0] != found[1]


def test_in_one_dimension_sigreg_does_not_depend_on_the_draw():
    first, second = views(30, 1)
    distances = [epps_pulley(z.numpy(), [[1.0]]) for z in (first, second)]
    expected = np.mean((first - second).numpy() ** 2) + 10 * np.mean(distances)
    for seed in (7, 8):
        assert seeded_sigreg(first, second, seed=seed).item() == pytest.approx(expected, rel=1e-9)


def test_vicreg_of_whitened_equal_views_is_nothing():
    z = torch.linalg.qr(views(12, 4)[0] - views(12, 4)[0].mean(0))[0] * math.sqrt(11)  # mean 0, covariance 1
    assert vicreg(z, z).item() == pytest.approx(0, abs=1e-9)
    flat = torch.zeros(12, 4)
    assert vicreg(flat, flat).item() == pytest.approx(2 * 25 * (1 - 0.01), rel=1e-6)


def test_the_smaller_matrix_gives_the_same_value():
    """Zero features change neither covariances nor cosines, but which matrix is the smaller."""
    assert smaller_gram(torch.zeros(2, 6, 4)).shape == (2, 4, 4)
    assert smaller_gram(torch.zeros(2, 6, 24)).shape == (2, 6, 6)
    first, second = scattered(6, 4)
    wide = [torch.nn.functional.pad(view, (0, 20)) for view in (first, second)]
    options = {"invariance": 0.0, "variance": 0.0}
    assert 24 * vicreg(*wide, **options).item() == pytest.approx(4 * vicreg(first, second, **options).item(), rel=1e-9)
    assert tcr(*wide, eps=6.0 * 0.2).item() == pytest.approx(tcr(first, second).item(), rel=1e-9)


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(name, dtype):
    parts = [part.to(dtype) for part in scattered(32, 12)]
    value = FAST[name](*parts)
    assert value.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(FAST[name](*parts), value)
        assert torch.equal(FAST[name](*(part.float() for part in parts)), value)
    if name == "sigreg":  # its directions are drawn in the precision of the computation
        return
    assert value.item() == pytest.approx(SLOW[name]([part.double().numpy() for part in parts]), rel=1e-4)


@each
def test_a_collapsed_batch_has_a_finite_gradient(name):
    first = torch.ones(8, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(FAST[name](first, torch.ones(8, 4)), first)
    assert gradient.isfinite().all()


@each
def test_a_feature_that_is_not_a_number_stays_one(name):
    first, second = scattered(8, 4)
    first[2, 1] = math.nan
    assert math.isnan(FAST[name](first, second).item())


@each
def test_mistakes_are_named(name):
    first, second = views(4)
    with pytest.raises(DuetError, match="one shape"):
        FAST[name](first, second[:3])
    with pytest.raises(DuetError, match="one shape"):
        FAST[name](first[0], second[0])
    with pytest.raises(DuetError, match="at least 2 images"):
        FAST[name](first[:1], second[:1])
    with pytest.raises(DuetError, match="eps must be positive"):
        tcr(first, second, eps=0)
    with pytest.raises(DuetError, match="at least 1 direction"):
        sigreg(first, second, slices=0)


def test_barlow_twins_of_whitened_equal_views_is_nothing_whatever_their_scale():
    z = torch.linalg.qr(views(12, 4)[0] - views(12, 4)[0].mean(0))[0] * 1e4
    assert barlow_twins(z, z + 5).item() == pytest.approx(0, abs=1e-9)
    assert barlow_twins(z, -z).item() == pytest.approx(0.1 * 4 * 4, rel=1e-9)
    assert barlow_twins(z, z[:, [1, 0, 2, 3]]).item() == pytest.approx(0.1 * (2 + 5e-3 * 2), rel=1e-9)
