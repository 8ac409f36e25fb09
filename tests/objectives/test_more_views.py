"""Contrasts over more than two views of an image."""

from itertools import combinations

import pytest
import torch

from duet.error import DuetError
from duet.objectives import contrast_views, nt_xent

from .test_batch_statistics import FAST, slow_barlow_twins, slow_sigreg, slow_tcr, slow_vicreg
from .test_objectives import slow_nt_xent, views


def parts(count, n=6, dim=5):
    return [views(n, dim, seed)[0] for seed in range(count)]


def test_nt_xent_of_four_views_is_the_mean_over_all_pairs():
    four = parts(4)
    expected = [slow_nt_xent(four[i], four[j], 0.1) for i in range(4) for j in range(i)]
    assert len(expected) == 6
    assert contrast_views(four, nt_xent).item() == pytest.approx(sum(expected) / 6, abs=1e-9)
    assert contrast_views(four, lambda a, b, gather=None: nt_xent(a, b, 0.5, gather)).item() == pytest.approx(
        sum(slow_nt_xent(a, b, 0.5) for a, b in combinations(four, 2)) / 6, abs=1e-9
    )


@pytest.mark.parametrize(
    ("name", "slow"), [("vicreg", slow_vicreg), ("barlow_twins", slow_barlow_twins), ("sigreg", slow_sigreg)]
)
@pytest.mark.parametrize("count", [3, 4])
def test_contrasts_of_all_views_at_once_are_the_mean_over_pairs_too(name, slow, count):
    several = parts(count)
    pairs = [slow((a.numpy(), b.numpy())) for a, b in combinations(several, 2)]
    assert contrast_views(several, FAST[name]).item() == pytest.approx(sum(pairs) / len(pairs), rel=1e-9)


def test_tcr_compares_every_view_with_the_mean_of_all():
    several = parts(4)
    expected = slow_tcr([z.numpy() for z in several])
    assert contrast_views(several, FAST["tcr"]).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("contrast", [nt_xent, *FAST.values()])
def test_two_views_have_the_bytes_of_the_contrast_itself(contrast):
    two = [part.float().requires_grad_() for part in parts(2)]
    found = contrast_views(two, contrast)
    expected = contrast(*two)
    assert torch.equal(found, expected)
    for a, b in zip(torch.autograd.grad(found, two), torch.autograd.grad(expected, two), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("contrast", [nt_xent, *FAST.values()])
def test_the_order_of_the_views_does_not_matter(contrast):
    first, second, third = parts(3)
    expected = contrast_views([first, second, third], contrast).item()
    assert contrast_views([third, first, second], contrast).item() == pytest.approx(expected, rel=1e-9)


def test_every_pair_goes_through_gather():
    seen = []
    contrast_views(parts(3), nt_xent, gather=lambda rows: seen.append(len(rows)) or rows)
    assert seen == [12, 12, 12]


def test_a_wrapper_gets_pairs():
    """Only parameters (first, second, *others) say that a contrast takes any number of views."""
    wrapper = lambda *given, **options: nt_xent(*given, **options)  # noqa: E731
    assert torch.equal(contrast_views(parts(3), wrapper), contrast_views(parts(3), nt_xent))


def test_one_view_is_refused():
    with pytest.raises(DuetError, match="at least 2 views"):
        contrast_views(parts(1), nt_xent)
