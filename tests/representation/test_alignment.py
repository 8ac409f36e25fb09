"""Codes brought to one turn: exact turns come back, order and a common turn change nothing, noise is never sure."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet.error import DuetError
from duet.representation import Spectrum
from duet.representation.alignment import Codes, align_codes
from duet.representation.turn import best_turn, likelihood_curve, phases, sum_by_harmonic, turn_grid
from tests.representation.test_spectrum import features

HARMONIC = torch.arange(1, 5).repeat_interleave(5)
seeds = st.integers(0, 10_000)


def make(images=20, noise=0.0, elements=0, seed=0):
    """Turns (N,) of one code, and their codes."""
    generator = torch.Generator().manual_seed(seed)
    harmonic = HARMONIC if elements == 0 else torch.arange(1, elements // 2 + 1).repeat_interleave(5)
    real = 2 * harmonic == elements

    def normal(*size):
        p = torch.randn(*size, generator=generator, dtype=torch.complex128)
        return torch.where(real, p.real + 0j, p)

    by = torch.rand(images, generator=generator, dtype=torch.float64)
    if elements:
        by = torch.randint(elements, (images,), generator=generator).double() / elements
    p = phases(by, harmonic) * (normal(len(harmonic)) + noise * normal(images, len(harmonic)))
    weight = torch.rand(len(harmonic), generator=generator, dtype=torch.float64) + 0.5
    return by, Codes(p, harmonic, weight, real, elements)


def apart(found, wanted):
    """How far turns are from each other, whatever the common one: (N,)."""
    away = found - wanted
    away = away - away[0]
    return (away - away.round()).abs()


@settings(max_examples=25, deadline=None)
@given(images=st.integers(2, 30), seed=seeds)
def test_exact_turns_of_one_code_come_back(images, seed):
    by, codes = make(images, seed=seed)
    found = align_codes(codes)
    assert apart(found.by, by).max() < 1e-6
    assert found.coherence == pytest.approx(1, abs=1e-9)
    assert found.by.min() > -0.5
    assert found.by.max() <= 0.5
    assert torch.allclose(phases(found.by, HARMONIC) * found.mean, codes.p, atol=1e-5)


@settings(max_examples=5, deadline=None)
@given(seed=seeds, noise=st.floats(0.1, 1.5))
def test_the_order_of_the_images_changes_no_turn_and_hardly_a_probability(seed, noise):
    _, codes = make(25, noise, seed=seed)
    order = torch.randperm(25, generator=torch.Generator().manual_seed(seed))
    here, there = align_codes(codes), align_codes(codes.rows(order))
    away = here.by[order] - there.by
    assert (away - away.round()).abs().max() < 1e-6
    # Other splits into halves are drawn.
    away = (here.probability[order] - there.probability).abs()
    assert away.mean() < 0.05
    assert away.max() < 0.25


@settings(max_examples=5, deadline=None)
@given(seed=seeds, noise=st.floats(0.1, 1.5), by=st.floats(-2, 2))
def test_a_turn_of_all_images_changes_nothing(seed, noise, by):
    _, codes = make(25, noise, seed=seed)
    turned = codes._replace(p=codes.p * phases(torch.tensor([by], dtype=torch.float64), codes.harmonic))
    here, there = align_codes(codes), align_codes(turned)
    away = here.by - there.by
    assert (away - away.round()).abs().max() < 1e-6
    assert (here.probability - there.probability).abs().max() < 1e-5


def test_the_common_turn_is_the_mean_of_all():
    _, codes = make(30, 0.5)
    direction = phases(align_codes(codes).by, torch.ones(1)).sum()
    assert direction.imag == pytest.approx(0, abs=1e-9)
    assert direction.real > 0


@pytest.mark.parametrize("elements", [2, 4, 5])
def test_a_finite_group_takes_its_elements(elements):
    by, codes = make(21, 0.2, elements)
    found = align_codes(codes)
    assert torch.equal((found.by * elements).round() / elements, found.by)
    assert apart(found.by, by).max() < 1e-12
    counts = torch.unique(found.by, return_counts=True)
    assert dict(zip(*(part.tolist() for part in counts), strict=True))[0.0] == counts[1].max()  # most stay
    assert found.probability.min() > 0.9


@pytest.mark.parametrize("seed", range(4))
def test_no_turns_of_three_images_score_better_than_those_found(seed):
    # Every pair of turns of the second and third image, two degrees apart, against the first.
    _, codes = make(3, 1.0, seed=seed)
    grid = torch.arange(180, dtype=torch.float64) / 180
    first, second, third = codes.p
    second, third = (phases(grid, -codes.harmonic) * p for p in (second, third))
    mean = (first + second[:, None] + third[None]) / 3
    best = (codes.weight * mean.abs().square()).sum(-1).max()
    assert codes.score(align_codes(codes).mean) >= best


def test_two_images_are_read_as_a_spectrum_reads_their_difference():
    z, g = features(images=400, noise=0.3)
    spectrum = Spectrum.fit(z, g)
    turning = spectrum.turning
    wanted = spectrum.difference(z[:30, 0], z[:30, 1]).g
    for pair, by in zip(z[:30, :2], wanted, strict=True):
        p = spectrum.turning_codes(pair)
        found = align_codes(Codes(p, turning.harmonic, turning.weight, turning.real)).by
        away = found[1] - found[0] - by
        assert abs(away - away.round()) < 1e-6


def test_the_curve_is_the_likelihood_written_out():
    _, codes = make(3, 0.5)
    sums, harmonic = sum_by_harmonic(codes.p, codes.harmonic)
    assert harmonic.tolist() == [1, 2, 3, 4]
    curve = likelihood_curve(sums, harmonic, 0)
    for point in (0, 77, 359):
        by = float(turn_grid(sums, 0)[point])
        for row in range(3):
            terms = [
                2 * (complex(p) * complex(math.cos(2 * math.pi * k * by), -math.sin(2 * math.pi * k * by))).real
                for p, k in zip(codes.p[row], codes.harmonic.tolist(), strict=True)
            ]
            assert float(curve[row, point]) == pytest.approx(sum(terms))
    fine = torch.arange(36_000, dtype=torch.float64) / 36_000
    scores = (sums.unsqueeze(1) * phases(fine, -harmonic)).real.sum(-1)
    away = best_turn(sums, harmonic, 0)[0] - fine[scores.argmax(1)]
    assert (away - away.round()).abs().max() < 2 / 36_000


def test_pure_noise_is_never_sure():
    found = torch.cat([align_codes(make(200, 1e6, seed=seed)[1]).probability for seed in range(3)])
    assert 0.25 < found.mean() < 0.45  # a quarter would be right by chance: it says a little too much
    assert found.max() < 0.9


def test_a_stranger_among_copies_is_seldom_sure_and_they_are():
    _, codes = make(20, 0.2)
    strangers = []
    for seed in range(12):
        p = codes.p.clone()
        p[7] = make(1, seed=100 + seed)[1].p[0]
        probability = align_codes(codes._replace(p=p)).probability
        assert probability[torch.arange(20) != 7].min() > 0.98
        strangers.append(float(probability[7]))
    assert sum(told > 0.9 for told in strangers) <= 3
    assert sum(strangers) / 12 < 0.75


@pytest.mark.parametrize("noise", [1.5, 2.5])
def test_the_probability_is_at_most_the_share_that_is_right(noise):
    told, right = [], []
    for seed in range(4):
        by, codes = make(50, noise, seed=seed)
        found = align_codes(codes)
        away = (found.by - by).unsqueeze(1) - torch.arange(360) / 360
        away = (away - away.round()).abs()
        right.append((away[:, away.sum(0).argmin()] <= 1 / 8).double().mean())
        told.append(found.probability.mean())
    share = float(torch.stack(right).mean())
    assert share - 0.2 < torch.stack(told).mean() < share + 0.03
    assert 0.6 < share < 0.999  # neither easy nor hopeless


def test_the_same_components_four_times_make_images_little_surer():
    _, codes = make(40, 2.0)
    four = Codes(codes.p.repeat(1, 4), *(part.repeat(4) for part in codes[1:4]))
    once, repeated = align_codes(codes).probability, align_codes(four).probability
    assert repeated.mean() < once.mean() + 0.13  # 0.18 where they are taken for independent


def test_the_least_noise_does_not_change_who_is_sure():
    changes = []
    for seed in range(8):
        _, codes = make(12, 2.5, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(codes.p.shape, generator=generator, dtype=torch.complex128)
        here, there = align_codes(codes), align_codes(codes._replace(p=codes.p + 0.01 * noise))
        changes.append((here.probability - there.probability).abs())
    assert torch.cat(changes).max() < 0.1
    assert torch.cat(changes).mean() < 0.02


def test_what_cannot_be_aligned_says_so():
    _, codes = make(4)
    with pytest.raises(DuetError, match="at least 2 images, not 1"):
        align_codes(codes.rows(torch.tensor([0])))
    with pytest.raises(DuetError, match="do not turn"):
        align_codes(codes._replace(p=torch.zeros_like(codes.p)))
    broken = codes.p.clone()
    broken[0, 0] = math.nan
    with pytest.raises(DuetError, match="NaN"):
        align_codes(codes._replace(p=broken))
