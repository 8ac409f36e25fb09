"""The spectrum: laws of its action, purities against features whose harmonics are known, differences of two views."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet.representation import Spectrum
from duet.representation.spectrum import CHUNK_BYTES

PLANES = {1: 4, 2: 3, 3: 2}


def turns(g, k):
    return torch.polar(torch.ones_like(g), 2 * math.pi * k * g).unsqueeze(-1)


def features(images=1500, views=4, noise=0.0, extra=6, planes=PLANES, invariant=5, elements=None, seed=0):
    """Features built of known harmonics, mixed by a matrix: z (N, V, D), g (N, V)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (images, views)
    g = torch.rand(shape, generator=generator, dtype=torch.float64)
    if elements is not None:
        g = torch.tensor(elements, dtype=torch.float64)[torch.randint(len(elements), shape, generator=generator)]

    def normal(*size, dtype=torch.float64):
        return torch.randn(*size, generator=generator, dtype=dtype)

    parts = [normal(images, 1, invariant).expand(images, views, invariant)]
    for k, count in planes.items():
        w = normal(images, 1, count, dtype=torch.complex128) * turns(g, k)
        parts += [w.real * math.sqrt(2), w.imag * math.sqrt(2)]
    x = torch.cat([*parts, normal(images, views, extra)], -1)
    x = x + noise * normal(*x.shape)
    mixing = normal(x.shape[-1], x.shape[-1])
    return x @ mixing + 3, g


@pytest.fixture(scope="module")
def spectrum():
    z, g = features(noise=0.2)
    return Spectrum.fit(z, g, ridge=0), z, g


def angle_error(found, wanted):
    away = found - wanted
    return (away - away.round()).abs()


@settings(max_examples=40, deadline=None)
@given(a=st.floats(-3, 3), b=st.floats(-3, 3), rows=st.integers(1, 5))
def test_the_group_law_is_exact(spectrum, a, b, rows):
    fitted, z, _ = spectrum
    z = z[:rows, 0]
    twice, once = fitted.act(fitted.act(z, b), a), fitted.act(z, a + b)
    assert (twice - once).abs().max() < 1e-10 * z.abs().max()


def test_no_turn_and_a_whole_turn_are_the_identity(spectrum):
    fitted, z, _ = spectrum
    assert torch.equal(fitted.act(z[:, 0], 0.0), z[:, 0])
    assert (fitted.act(z[:, 0], 1.0) - z[:, 0]).abs().max() < 1e-10
    by = torch.rand(len(z), dtype=torch.float64)
    assert (fitted.act(fitted.act(z[:, 0], by), -by) - z[:, 0]).abs().max() < 1e-9


def test_codes_turn_with_the_action(spectrum):
    fitted, z, _ = spectrum
    by = torch.rand(len(z), dtype=torch.float64)
    before, after = fitted.code(z[:, 0]), fitted.code(fitted.act(z[:, 0], by))
    for k, count in {0: 5, **PLANES}.items():
        wanted = before[k][:, :count] * turns(by, k)
        assert (after[k][:, :count] - wanted).abs().max() < 1e-9


def test_purities_are_those_the_features_were_built_with(spectrum):
    fitted, _, _ = spectrum
    true = 1 / (1 + 0.2**2)
    for k, count in {0: 5, **PLANES}.items():
        assert torch.allclose(fitted.purity[k][:count], torch.tensor(true, dtype=torch.float64), atol=0.02)
        assert all(abs(float(purity)) < 0.1 for purity in fitted.purity[k][count:])
        assert fitted.capacity(k) == pytest.approx(count * true, abs=0.15)
    assert abs(fitted.capacity(4)) < 0.15


def test_pure_noise_has_no_capacity():
    generator = torch.Generator().manual_seed(5)
    sums = {k: [] for k in range(4)}
    for _ in range(8):
        z = torch.randn(300, 3, 24, generator=generator, dtype=torch.float64)
        fitted = Spectrum.fit(z, torch.rand(300, 3, generator=generator), harmonics=3)
        for k, found in sums.items():
            found.append(fitted.capacity(k))
            # A purity's error is about one over the root of the pairs it is measured on.
            assert fitted.purity[k].abs().max() < 5 / math.sqrt(150 * 3)
    for found in sums.values():
        mean, error = sum(found) / 8, torch.tensor(found).std() / math.sqrt(8)
        assert abs(mean) < 4 * error + 0.02


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_scores_do_not_change_under_a_linear_map(spectrum, seed):
    fitted, z, g = spectrum
    generator = torch.Generator().manual_seed(seed)
    dim = z.shape[-1]
    rotation, _ = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
    scales = torch.rand(dim, generator=generator, dtype=torch.float64) + 0.5
    other = Spectrum.fit((z @ (rotation * scales)) - 7, g, ridge=0)
    for k in fitted.harmonics:
        assert torch.allclose(fitted.purity[k], other.purity[k], atol=1e-7)


def test_a_slow_loop_finds_the_same_shared_moment():
    z, g = features(images=12, views=3, extra=1, planes={1: 1}, invariant=1)
    from duet.representation.spectrum import _moments

    found = _moments(z, g, 2)
    x = z - z.reshape(-1, z.shape[-1]).mean(0)
    for k in range(3):
        total = torch.zeros(x.shape[-1], x.shape[-1], dtype=torch.complex128)
        for i in range(12):
            for v in range(3):
                for w in range(3):
                    if v != w:
                        left = x[i, v] * turns(g[i, v], -k)
                        right = x[i, w] * turns(g[i, w], -k)
                        total += torch.outer(left, right.conj())
        assert torch.allclose(found.shared[k], total / (12 * 3 * 2), atol=1e-10)


def test_the_difference_of_two_views_and_its_spread(spectrum):
    fitted, z, g = spectrum
    found = fitted.difference(z[:, 0], z[:, 1])
    away = angle_error(found.g, g[:, 1] - g[:, 0])
    assert found.g.min() > -0.5
    assert found.g.max() <= 0.5
    assert away.median() < 0.01
    # The spread is that of a likelihood: about two thirds of the errors lie within it.
    assert 0.6 < (away <= found.spread).double().mean() < 0.76
    back = fitted.difference(z[:, 1], z[:, 0])
    assert angle_error(back.g, -found.g).max() < 1e-6
    moved = fitted.difference(z[:, 0], fitted.act(z[:, 0], 0.3))
    assert angle_error(moved.g, torch.tensor(0.3)).max() < 1e-4  # what is not steerable stays


def test_features_that_say_nothing_have_a_wide_spread():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(400, 2, 8, generator=generator)
    fitted = Spectrum.fit(z, torch.rand(400, 2, generator=generator))
    assert fitted.difference(z[:, 0], z[:, 1]).spread.median() > 0.2


@pytest.mark.parametrize("elements", [(0.125, 0.375, 0.625, 0.875), (0.25, 0.75), (0.0, 1 / 3, 2 / 3)])
def test_finite_groups_have_characters(elements):
    n = len(elements)
    planes = dict.fromkeys(range(1, n // 2 + 1), 2)
    z, g = features(images=800, views=3, noise=0.1, planes=planes, elements=elements)
    fitted = Spectrum.fit(z, g, elements=elements, ridge=0)
    assert fitted.harmonics == list(range(n // 2 + 1))
    for k in planes:
        # Of a real character the real and the imaginary part are two dimensions of their own.
        assert fitted.capacity(k) == pytest.approx(4 if fitted.is_real(k) else 2, abs=0.2)
    for step in range(n):
        once = fitted.act(z[:5, 0], step / n)
        assert torch.allclose(fitted.act(z[:5, 0], step / n + 0.3 / n), once)  # the nearest element
        again = fitted.act(once, (n - step) / n)
        assert (again - z[:5, 0]).abs().max() < 1e-9
    found = fitted.difference(z[:, 0], z[:, 1])
    assert (angle_error(found.g, g[:, 1] - g[:, 0]) < 0.25 / n).double().mean() > 0.98


def test_it_comes_back_from_its_tensors(spectrum):
    fitted, z, _ = spectrum
    again = Spectrum.from_state_dict(fitted.state_dict(), z.shape[-1])
    assert torch.equal(again.act(z[:9, 0], 0.37), fitted.act(z[:9, 0], 0.37))
    assert again.purity.keys() == fitted.purity.keys()
    beyond = torch.full_like(fitted.steered, len(fitted.harmonic))
    for wrong in ({"out": torch.zeros(1)}, {"steered": beyond}, {"steered": fitted.steered.float()}):
        with pytest.raises(ValueError, match="do not fit together"):
            Spectrum.from_state_dict({**fitted.state_dict(), **wrong})
    with pytest.raises(ValueError, match="in a layout of 7"):
        Spectrum.from_state_dict(fitted.state_dict(), 7)


def test_in_single_precision_it_still_turns(spectrum):
    fitted, z, _ = spectrum
    single = Spectrum.from_state_dict(fitted.state_dict()).float()
    z = z[:50, 0]
    assert (single.act(z.float(), 0.2) - fitted.act(z, 0.2)).abs().max() < 1e-3 * z.abs().max()
    assert single.act(z.float(), 0.2).dtype == torch.float32


def test_features_without_variance_in_some_directions():
    z, g = features(images=300, views=3)
    z = torch.cat([z, z[..., :2] * 2, torch.ones(300, 3, 1)], -1)
    fitted = Spectrum.fit(z, g)
    assert torch.isfinite(fitted.act(z[:, 0], 0.3)).all()
    assert fitted.capacity(1) == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum.fit(torch.zeros(5, 4), torch.zeros(5)), r"z \(N, V, D\)"),
        (lambda: Spectrum.fit(torch.zeros(3, 2, 4), torch.zeros(3, 2)), "at least 4 images"),
        (lambda: Spectrum.fit(torch.zeros(8, 1, 4), torch.zeros(8, 1)), "2 views"),
        (lambda: Spectrum.fit(torch.zeros(8, 2, 4), torch.zeros(8, 2), harmonics=-1), "negative"),
        (lambda: Spectrum.fit(torch.randn(8, 2, 4), torch.zeros(8, 2), elements=(0.0, 1.0)), "group that turns"),
        (lambda: Spectrum.fit(torch.full((8, 2, 4), math.nan), torch.zeros(8, 2)), "NaN"),
    ],
)
def test_what_has_no_spectrum_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_fit_takes_a_few_matrices_and_no_copy_of_the_features():
    # A quarter of the features and of the views of D = 2,048 and 50,000 views, so a sixteenth of the 2 GB it may take.
    code = """
import resource, torch
from duet.representation import Spectrum
from duet.representation.spectrum import CHUNK_BYTES
Spectrum.fit(torch.randn(40, 4, 64), torch.rand(40, 4))  # what is loaded on first use
z, g = torch.randn(3125, 4, 512), torch.rand(3125, 4)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Spectrum.fit(z, g)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Chunks of the views are as large for few features as for many: they are counted apart.
    assert int(done.stdout) < 2e9 / 16 + 3 * CHUNK_BYTES
