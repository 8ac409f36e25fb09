"""How far off readings are: quantiles by doubt, each beside a slow oracle."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duet.error import DuetError
from duet.model import Confidence
from duet.model.error_quantiles import BLOCKS, LEVELS, Errors
from tests.conftest import confident, make_compass

LAST = len(LEVELS) - 1


def readings(n=6000, seed=0):
    """Errors that grow with the doubt: of a half normal distribution of that spread."""
    generator = torch.Generator().manual_seed(seed)
    doubt = torch.rand(n, generator=generator)
    error = (0.02 + 0.1 * doubt) * torch.randn(n, generator=generator).abs()
    return doubt, error, torch.arange(n)


def test_the_probability_of_a_smaller_error_is_its_share_a_little_lowered():
    doubt, error, image = readings()
    found = Errors.fit(doubt, error, image, 0.125)
    assert len(found.doubts) == BLOCKS
    for low in (0.05, 0.45, 0.85):
        rows = (doubt > low) & (doubt < low + 0.1)
        for bound in (0.02, 0.05, 0.1):
            share = float((error[rows] < bound).double().mean())
            told = float(found.below(torch.tensor([low + 0.05]), torch.tensor([bound])))
            assert told == pytest.approx(share, abs=0.07)
            assert told <= min(share + 0.02, LEVELS[-1])


def test_one_block_is_the_cautious_share_by_hand():
    error = torch.linspace(0.001, 0.1, 30)
    found = Errors.fit(torch.full((30,), 0.3), error, torch.arange(30) // 2, 0.125)
    shares = [(j + 1) / 31 for j in range(30)]
    lowered = [share - math.sqrt(share * (1 - share) / 15) for share in shares]
    for level, quantile in list(zip(LEVELS, found.quantiles[0].tolist(), strict=True))[1:]:
        enough = [own for own, share in zip(error.tolist(), lowered, strict=True) if share >= level]
        assert quantile == pytest.approx(enough[0] if enough else 1.0)


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=9), st.floats(0, 1, width=32))
def test_more_doubt_never_makes_a_small_error_more_probable(doubts, error):
    found = Errors.fit(*readings(600), 0.125)
    told = found.below(torch.tensor(sorted(doubts)), torch.full((len(doubts),), error))
    assert bool((told.diff() <= 1e-6).all())
    assert bool(((told >= 0) & (told <= LEVELS[-1])).all())


@given(st.floats(0, 1, width=32), st.floats(0, 0.625, width=32))
def test_it_is_straight_between_quantiles_and_between_doubts(doubt, error):
    quantiles = torch.tensor(LEVELS) * torch.tensor([[0.1], [0.2], [0.5]])
    found = Errors(torch.tensor([0.2, 0.4, 0.7]), quantiles, 0.125)
    each = [np.interp(error, row.double(), LEVELS) for row in quantiles]
    expected = np.interp(doubt, [0.2, 0.4, 0.7], each)
    assert float(found.below(torch.tensor([doubt]), torch.tensor([error]))) == pytest.approx(expected, abs=1e-5)


def test_errors_come_back_equal_and_older_confidences_have_none():
    before = confident(make_compass()).confidence
    tensors = {"mean": before.mean, "whitening": before.whitening}
    after = Confidence.from_dict(before.to_dict(), tensors, 16)
    assert torch.equal(after.errors["rot360"].quantiles, before.errors["rot360"].quantiles)
    older = {axis: {key: own[key] for key in own if key != "errors"} for axis, own in before.to_dict().items()}
    assert Confidence.from_dict(older, tensors, 16).errors == {}


@pytest.mark.parametrize(
    ("doubts", "quantiles"),
    [
        ([], torch.zeros(0, len(LEVELS))),
        ([0.1], torch.zeros(1, 3)),
        ([0.2, 0.1], torch.zeros(2, len(LEVELS))),
        ([0.1], torch.full((1, len(LEVELS)), math.nan)),
        ([0.1], -torch.ones(1, len(LEVELS))),
        ([0.1], torch.linspace(1, 0, len(LEVELS))[None]),
    ],
)
def test_numbers_that_make_no_quantiles_are_refused_in_one_line(doubts, quantiles):
    with pytest.raises(DuetError, match=r"of a confidence|of an error") as caught:
        Errors(torch.tensor(doubts), quantiles, 0.125)
    assert "\n" not in str(caught.value)
    with pytest.raises(DuetError, match="quantiles for each"):
        Errors.from_dict({"within": 0.1, "doubts": [0.1], "quantiles": [[0.0, 0.1]]})
    with pytest.raises(DuetError, match="one reading or more"):
        Errors.fit(torch.empty(0), torch.empty(0), torch.empty(0), 0.1)
