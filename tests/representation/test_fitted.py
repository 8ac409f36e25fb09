"""The fitted action on features whose true action is known."""

import math
import warnings

import pytest
import torch

from duet import domain
from duet.representation import FittedAction, fitted


class Circle:
    """Features that carry a true representation of the circle: block rotations of several frequencies, mixed."""

    def __init__(self, dim, frequencies=(0, 1, 2, 3), seed=0):
        self.generator = torch.Generator().manual_seed(seed)
        self.dim = dim
        self.mix = torch.linalg.qr(self.normal(dim, dim))[0]
        self.offset = self.normal(dim)
        self.frequencies = torch.tensor([frequencies[i % len(frequencies)] for i in range(dim // 2)])

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, n):
        return torch.rand(n, generator=self.generator, dtype=torch.float64)

    def act(self, z, by):
        pairs = (z @ self.mix).reshape(len(z), -1, 2)
        turn = torch.polar(torch.ones((), dtype=torch.float64), 2 * math.pi * by.unsqueeze(-1) * self.frequencies)
        return torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn).flatten(1) @ self.mix.T

    def pairs(self, n, noise=0.0, elements=None):
        z = self.normal(n, self.dim)
        if elements is None:
            by = 2 * self.uniform(n) - 1
        else:
            by = torch.tensor(elements, dtype=torch.float64)[torch.arange(n) % len(elements)]
        return z, self.act(z, by) + noise * self.normal(n, self.dim), by


def relative(error, z):
    return (error.norm(dim=-1) / z.norm(dim=-1)).mean().item()


@pytest.mark.parametrize("dim", [16, 48])
def test_it_recovers_a_representation_of_the_circle(dim):
    world = Circle(dim)
    action = FittedAction.fit(*world.pairs(60 * dim), cyclic=True)
    z, moved, by = world.pairs(200)
    torch.testing.assert_close(action(z, by), moved, atol=1e-4, rtol=0)
    torch.testing.assert_close(action(z, 0.0), z, atol=1e-3, rtol=0)
    assert action.law_error(z, by, by.flip(0)).item() < 1e-3
    torch.testing.assert_close(action(z, by + 1), action(z, by))


def test_it_is_affine():
    """z -> (z + c) turned: without the constant it would be out of reach."""
    world = Circle(16)
    z, moved, by = world.pairs(2000)
    action = FittedAction.fit(z + 3 * world.offset, moved + 3 * world.offset, by, cyclic=True)
    torch.testing.assert_close(action(z + 3 * world.offset, by), moved + 3 * world.offset, atol=1e-4, rtol=0)


def test_noise_degrades_it_gracefully():
    errors = []
    for noise in (0.0, 0.1, 0.3):
        world = Circle(16)
        action = FittedAction.fit(*world.pairs(4000, noise), cyclic=True)
        z, moved, by = world.pairs(500)
        errors.append(relative(action(z, by) - moved, z))
    assert errors == sorted(errors)
    assert errors[0] < 1e-4
    assert errors[2] < 0.3  # below the noise itself


@pytest.mark.parametrize("cyclic", [True, False])
@pytest.mark.parametrize("elements", [None, (0.0, 0.5)])
def test_invariant_features_give_the_identity(cyclic, elements):
    z, _, by = Circle(16).pairs(500)
    action = FittedAction.fit(z, z, by, cyclic=cyclic, elements=elements)
    torch.testing.assert_close(action(z, by), z, atol=1e-9, rtol=0)


def test_an_interval_takes_polynomials():
    world = Circle(8)
    z = world.normal(3000, 8)
    by = 2 * world.uniform(3000) - 1
    a, b = world.normal(8, 8) / 4, world.normal(8, 8) / 4
    move = lambda z, by: z + by[:, None] * (z @ a) + by[:, None] ** 2 * (z @ b) + by[:, None] ** 3  # noqa: E731
    action = FittedAction.fit(z, move(z, by), by, cyclic=False)
    torch.testing.assert_close(action(z, by), move(z, by), atol=1e-4, rtol=0)
    assert len(action.weight) == 4


def test_a_finite_group_has_one_matrix_per_difference():
    world = Circle(12, frequencies=(1, 2, 3))
    quarters = (0.0, 0.25, 0.5, 0.75)
    z, moved, by = world.pairs(2000, elements=[-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75])
    action = FittedAction.fit(z, moved, by, cyclic=True, elements=quarters)
    assert action.differences.tolist() == list(quarters)
    torch.testing.assert_close(action(z, by), moved, atol=1e-4, rtol=0)
    torch.testing.assert_close(action(z, by + 0.04), action(z, by))  # the nearest element
    assert action.law_error(z, 0.75, 0.5).item() < 1e-3
    interval = FittedAction.fit(z, moved, by, cyclic=False, elements=(0.0, 1.0))
    assert interval.differences.tolist() == [-1.0, 0.0, 1.0]


def test_an_element_without_pairs_moves_nothing():
    world = Circle(8)
    z, moved, _ = world.pairs(300)
    by = torch.zeros(300, dtype=torch.float64)
    action = FittedAction.fit(z, moved, by, cyclic=True, elements=(0.25, 0.75))
    torch.testing.assert_close(action(z, 0.5), z, atol=1e-12, rtol=0)


def test_dead_and_repeated_features_do_no_harm():
    world = Circle(16)
    z, moved, by = (t.float() for t in world.pairs(2000))
    z = torch.cat([z, z[:, :2], torch.full((2000, 1), 5.3)], -1)
    moved = torch.cat([moved, moved[:, :2], torch.full((2000, 1), 5.3)], -1)
    for ridge in (1e-6, 0.0):
        action = FittedAction.fit(z, moved, by, cyclic=True, ridge=ridge)
        torch.testing.assert_close(action(z, by), moved, atol=1e-3, rtol=0)
        nudged = z + 1e-3
        assert (action(nudged, by) - moved).abs().max() < 0.1


def test_few_pairs_stay_near_the_identity_where_they_say_nothing():
    world = Circle(64)
    z, moved, by = world.pairs(20)
    action = FittedAction.fit(z, moved, by, cyclic=True)
    other = world.normal(100, 64)
    assert relative(action(other, 0.3), other) < 3


def test_one_default_ridge_serves_scaled_features():
    world = Circle(16)
    z, moved, by = world.pairs(2000)
    one = FittedAction.fit(z, moved, by, cyclic=True)(z, by)
    thousand = FittedAction.fit(1000 * z, 1000 * moved, by, cyclic=True)(1000 * z, by)
    torch.testing.assert_close(thousand, 1000 * one, rtol=1e-9, atol=1e-9)


def test_the_ridge_is_relative_to_the_data():
    world = Circle(16)
    z, moved, by = world.pairs(500)
    once = FittedAction.fit(z, moved, by, cyclic=True, ridge=0.1)
    twice = FittedAction.fit(z.repeat(2, 1), moved.repeat(2, 1), by.repeat(2), cyclic=True, ridge=0.1)
    torch.testing.assert_close(twice.weight, once.weight)
    weak, strong = (FittedAction.fit(z, moved, by, cyclic=True, ridge=ridge) for ridge in (1e-6, 1e6))
    torch.testing.assert_close(strong(z, by), z, atol=1e-4, rtol=0)
    assert relative(once(z, by) - moved, z) > 100 * relative(weak(z, by) - moved, z)


def test_the_normal_equations_are_those_of_a_direct_least_squares_fit(monkeypatch):
    monkeypatch.setattr(fitted, "CHUNK_BYTES", 4000)  # many chunks
    world = Circle(4)
    z, moved, by = world.pairs(300, noise=0.2)
    action = FittedAction.fit(z, moved, by, cyclic=True, order=1, ridge=0.0)
    angle = 2 * math.pi * by.unsqueeze(-1)
    affine = torch.cat([z, torch.ones(300, 1, dtype=torch.float64)], -1)
    design = torch.cat([affine, angle.cos() * affine, angle.sin() * affine], -1)
    expected = design @ torch.linalg.lstsq(design, moved).solution
    torch.testing.assert_close(action(z, by), expected, atol=1e-8, rtol=0)


def test_a_matrix_too_large_lowers_the_order_and_says_so(monkeypatch):
    monkeypatch.setattr(fitted, "MATRIX_BYTES", 8 * (3 * 17) ** 2)
    with pytest.warns(UserWarning, match="order 3 with 16 features .* fitting order 1"):
        action = FittedAction.fit(*Circle(16).pairs(500), cyclic=True)
    assert len(action.weight) == 3
    monkeypatch.setattr(fitted, "MATRIX_BYTES", 1)
    with pytest.warns(UserWarning, match="fitting order 0"):
        FittedAction.fit(*Circle(16).pairs(500), cyclic=False)


def test_2048_features_fit_the_limit_at_order_3():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted._affordable_order(3, 2048, domain.Circle()) == 3


def test_it_is_deterministic_and_keeps_the_type_of_the_features():
    z, moved, by = (t.float() for t in Circle(16).pairs(500))
    one, two = (FittedAction.fit(z, moved, by, cyclic=True) for _ in "12")
    assert torch.equal(one.weight, two.weight)
    assert one.weight.dtype == torch.float64
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert one(z.to(dtype), by).dtype == dtype
    torch.testing.assert_close(one.float()(z, by), two(z, by), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("cyclic", "elements"), [(True, None), (False, None), (True, (0.0, 0.5))])
def test_its_state_is_tensors_and_rebuilds_it(cyclic, elements, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    z, moved, by = Circle(16).pairs(500)
    action = FittedAction.fit(z, moved, by, cyclic=cyclic, elements=elements)
    safetensors.save_file(action.state_dict(), tmp_path / "action.safetensors")
    again = FittedAction.from_state_dict(safetensors.load_file(tmp_path / "action.safetensors"))
    assert again.domain.cyclic == cyclic
    assert torch.equal(again(z, by), action(z, by))
    again.load_state_dict(action.state_dict())
    assert torch.equal(again(z, by), action(z, by))


def test_gradients():
    z, moved, by = Circle(6, frequencies=(1, 2)).pairs(300)
    for cyclic in (True, False):
        action = FittedAction.fit(z, moved, by, cyclic=cyclic)
        at = torch.tensor([0.0, 0.3, -0.8], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(action, (z[:3].clone().requires_grad_(), at))


def test_mistakes_are_named():
    z = torch.zeros(4, 3)
    with pytest.raises(ValueError, match=r"pairs are \(N, D\), \(N, D\) and \(N,\)"):
        FittedAction.fit(z, z, torch.zeros(3), cyclic=True)
    with pytest.raises(ValueError, match="not be negative"):
        FittedAction.fit(z, z, torch.zeros(4), cyclic=True, order=-1)
    with pytest.raises(ValueError, match="NaN or infinity"):
        FittedAction.fit(z + math.nan, z, torch.zeros(4), cyclic=True)


def test_it_carries_by_the_difference_of_start_and_goal():
    generator = torch.Generator().manual_seed(0)
    z, by = torch.randn(400, 4, generator=generator), torch.rand(400, generator=generator)
    fitted = FittedAction.fit(z, z.roll(1, 1) * (1 + by.unsqueeze(1)), by, cyclic=False)
    start, goal = torch.full((5,), 0.5), torch.full((5,), 0.9)
    assert torch.equal(fitted.carry(z[:5], start, goal), fitted.act(z[:5], goal - start))
    assert not torch.equal(fitted.carry(z[:5], start, goal), fitted.act(z[:5], goal))
    orbit = fitted.orbit(z[:5], 0.5, torch.tensor([0.5, 0.9]))
    assert torch.allclose(orbit[1], fitted.act(z[:5], 0.4), atol=1e-4)
