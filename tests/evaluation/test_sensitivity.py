"""The share of a feature's variance that the group explains."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet.evaluation.sensitivity import group_share


def made(images, views, within, between, seed=0):
    """Features whose variances are known: (N, V, D)."""
    draw = np.random.default_rng(seed)
    within, between = np.asarray(within), np.asarray(between)
    base = draw.normal(size=(images, 1, len(within))) * np.sqrt(between)
    return torch.from_numpy(base + draw.normal(size=(images, views, len(within))) * np.sqrt(within) + 5)


def test_shares_are_those_the_features_were_made_with():
    within, between = [1.0, 0.0, 0.3, 2.0, 0.0], [0.0, 1.0, 0.7, 2.0, 0.0]
    found = group_share(made(20_000, 3, within, between))
    assert found.share.tolist() == pytest.approx([1, 0, 0.3, 0.5, 0], abs=0.02)
    assert found.variance.tolist() == pytest.approx([1, 1, 1, 4, 0], rel=0.05, abs=1e-9)
    assert found.order().tolist()[:3] == [0, 3, 2]


def test_a_slow_loop_finds_the_same():
    z = made(7, 3, [0.4, 1.0], [2.0, 0.5])
    found = group_share(z)
    for d in range(2):
        inside = [np.var(z[i, :, d].numpy(), ddof=1) for i in range(7)]
        w = sum(inside) / 7
        means = [float(z[i, :, d].mean()) for i in range(7)]
        b = max(0.0, np.var(means, ddof=1) - w / 3)
        assert float(found.share[d]) == pytest.approx(w / (w + b))
        assert float(found.variance[d]) == pytest.approx(w + b)


def test_the_variance_is_not_biased():
    # Of few images and views: the mean over many tables is the truth.
    tables = [group_share(made(6, 2, [1.0], [3.0], seed)).variance for seed in range(3000)]
    assert float(torch.stack(tables).mean()) == pytest.approx(4, rel=0.04)


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(1e-3, 1e3), offset=st.floats(-100, 100))
def test_scale_and_offset_do_not_matter(scale, offset):
    z = made(30, 3, [1.0, 0.2], [0.5, 1.0])
    assert torch.allclose(group_share(z * scale + offset).share, group_share(z).share, atol=1e-6)


def test_constant_features_have_no_share():
    z = torch.full((9, 4, 2), 0.1)
    z[..., 1] += torch.randn(9, 4)
    assert group_share(z).share[0] == 0
    assert torch.isfinite(group_share(z).share).all()


@pytest.mark.parametrize("shape", [(5, 3), (1, 4, 2), (4, 1, 2)])
def test_too_little_is_refused(shape):
    with pytest.raises(ValueError, match="two views of two images"):
        group_share(torch.zeros(shape))
