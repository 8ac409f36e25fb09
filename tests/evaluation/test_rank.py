"""RankMe: against NumPy's SVD, its laws, and as an evaluation beside baselines."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from duet.evaluation import Inapplicable, as_subject, evaluate
from duet.evaluation.rank import Rank, centre, rankme, singular_values
from duet.groups import find_group

from .conftest import make_context


def oracle(z):
    """RankMe in NumPy, by an SVD and a loop: (N, D) -> number."""
    sigma = np.linalg.svd(np.asarray(z, dtype=np.float64), compute_uv=False)
    total = 0.0
    for value in sigma:
        p = value / sum(sigma) + 1e-7
        total -= p * math.log(p)
    return math.exp(total)


def features(n, dim, seed=0, mean=3.0):
    """Features of uneven spread around a mean: (n, dim)."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(dim, dim, generator=generator) * torch.logspace(0, -3, dim)
    return torch.randn(n, dim, generator=generator) @ mixing + mean


def rotation(dim):
    return torch.linalg.qr(torch.randn(dim, dim, generator=torch.Generator().manual_seed(1)).double()).Q


def rank_of(z):
    return rankme(singular_values(z.double()))


@pytest.mark.parametrize("shape", [(200, 12), (12, 12), (7, 30), (50, 1), (1, 9)])
def test_it_is_that_of_a_singular_value_decomposition(shape):
    z = features(*shape)
    sigma = np.linalg.svd(z.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(singular_values(z.double()).numpy(), sigma, rtol=1e-6, atol=1e-7 * sigma[0])
    assert rank_of(z) == pytest.approx(oracle(z), rel=1e-6)


@pytest.mark.parametrize("shape", [(200, 12), (7, 30)])
def test_the_centred_rank_is_that_of_features_minus_their_mean(shape):
    z = features(*shape)
    expected = oracle(z.double().numpy() - z.double().numpy().mean(0))
    assert rankme(singular_values(centre(z))) == pytest.approx(expected, rel=1e-5)
    assert expected > oracle(z) + 0.5  # the mean is one strong direction


def test_features_of_low_rank_have_no_more_than_the_epsilon_beyond_it():
    z = features(300, 4) @ torch.randn(4, 256, generator=torch.Generator().manual_seed(2))
    assert rank_of(z) == pytest.approx(oracle(z), rel=1e-3)


def test_equal_singular_values_give_the_number_of_features():
    z = torch.linalg.qr(torch.randn(64, 16, generator=torch.Generator().manual_seed(0)).double()).Q
    assert rank_of(5 * z) == pytest.approx(16, rel=1e-4)


def test_rank_one_gives_one():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(100, 1, generator=generator) @ torch.randn(1, 16, generator=generator)
    assert rank_of(z) == pytest.approx(1, abs=1e-4)


def test_two_singular_values_by_hand():
    p = torch.tensor([0.75, 0.25])
    expected = math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert rankme(4 * p.double()) == pytest.approx(expected, abs=1e-5)


def test_the_epsilon_is_the_papers():
    """A million values of 0 beside one of 1: each adds -1e-7 log 1e-7."""
    sigma = torch.zeros(1_000_001).double()
    sigma[0] = 1
    assert math.log(rankme(sigma)) == pytest.approx(1e6 * 1e-7 * 7 * math.log(10), rel=1e-6)


@pytest.mark.parametrize("shape", [(200, 12), (7, 30)])
def test_rotating_or_scaling_features_changes_nothing(shape):
    z = features(*shape).double()
    for changed in (z @ rotation(shape[1]), 1e-4 * z, -1e5 * z):
        assert rank_of(changed) == pytest.approx(rank_of(z), rel=1e-6)
        assert rankme(singular_values(centre(changed))) == pytest.approx(rankme(singular_values(centre(z))), rel=1e-6)


def test_moving_features_changes_the_plain_rank_only():
    z = features(200, 12, mean=0.0).double()
    assert rankme(singular_values(centre(z + 50))) == pytest.approx(rankme(singular_values(centre(z))), rel=1e-6)
    assert rank_of(z + 50) < 0.8 * rank_of(z)


def test_collapsed_features_have_rank_one_and_centred_none(collapsed):
    result = Rank().measure(collapsed)
    assert result.scalars["rankme"] == pytest.approx(1, abs=1e-4)
    assert result.scalars["rankme_centred"] == 0
    assert set(Rank().figures(result)) == {"singular_values"}
    assert "of 0.0 after their mean is subtracted" in Rank().sentence(result)


def test_rounding_of_collapsed_features_is_no_rank():
    z = torch.full((40, 6), 0.1)
    z[::7, 2] = torch.nextafter(z[0, 0], torch.tensor(1.0))
    assert rankme(singular_values(centre(z))) == 0
    assert rankme(singular_values(centre(z + 1e-3 * features(40, 6)))) > 1


def test_features_of_zero_have_rank_zero_and_no_figure():
    images = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    subject = as_subject(lambda x: torch.zeros(len(x), 3), "rot4", images[:2])
    result = Rank().measure(make_context(subject, images, find_group("rot4")))
    assert (result.scalars["rankme"], result.scalars["rankme_centred"]) == (0, 0)
    assert Rank().figures(result) == {}


def test_features_that_are_not_finite_are_left_out():
    images = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    subject = as_subject(lambda x: torch.full((len(x), 3), math.nan), "rot4", images[:2])
    with pytest.raises(Inapplicable, match="NaN or infinite"):
        Rank().measure(make_context(subject, images, find_group("rot4")))


def test_it_is_measured_on_the_test_images_beside_baselines():
    images = torch.rand(120, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    subject = as_subject(nn.Flatten(), "rot4", images[:2], name="pixels")
    context = make_context(subject, images, find_group("rot4"))
    result = evaluate(context, ["rank"], progress=False)["rank"]
    z = images[60:].flatten(1)
    assert result.scalars["rankme"] == pytest.approx(oracle(z), rel=1e-6)
    assert result.scalars["rankme_centred"] == pytest.approx(oracle(z - z.mean(0)), rel=1e-5)
    assert result.scalars["features"] == 16
    assert result.provenance["images"] == 60
    assert {"rankme", "rankme_centred", "features"} <= set(result.rivals["pixels"].scalars)
    assert "of 60 test images" in Rank().sentence(result)
    assert "; 16 is the most that is possible." in Rank().sentence(result)


def test_its_figure_has_a_logarithmic_axis_and_a_curve_for_each_rank(pixels):
    figure = Rank().figures(Rank().measure(pixels))["singular_values"]
    axis = figure.axes[0]
    assert axis.get_yscale() == "log"
    assert len(axis.get_lines()) == 2
    for line in axis.get_lines():
        share = np.asarray(line.get_ydata())
        assert len(share) == 16
        assert share.sum() == pytest.approx(1, abs=1e-5)
        assert bool((np.diff(share) <= 0).all())
