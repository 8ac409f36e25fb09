"""Nearest neighbours of transformed images."""

import pytest
import torch

from duet.evaluation import Inapplicable, Sizes, as_subject
from duet.evaluation.robustness import Robustness
from duet.groups import GROUPS

from .conftest import make_context

SMALL = Sizes(images=40, probe=64)
LABELS = torch.arange(120) % 2


def bars():
    """Upright bars and lying ones: a quarter turn takes a class to the other."""
    images = torch.rand(120, 1, 12, 12, generator=torch.Generator().manual_seed(0)) * 0.1
    images[LABELS == 0, :, :, 5:7] += 0.9
    images[LABELS == 1, :, 5:7] += 0.9
    return images


def measure(function, group, labels=LABELS):
    return Robustness().measure(make_context(as_subject(function, group, bars()), bars(), GROUPS[group], labels, SMALL))


def test_pixels_of_bars_break_under_quarter_turns():
    found = measure(lambda x: x.flatten(1), "rot4")
    assert found.scalars["knn_untouched"] == 1
    assert found.scalars["knn_transformed"] == pytest.approx(0.5, abs=0.2)  # half of the turns change the class
    assert found.scalars["loss"] == pytest.approx(1 - found.scalars["knn_transformed"])
    low, high = found.intervals["loss"]
    assert 0.2 < low < found.scalars["loss"] < high
    assert found.scalars["chance"] == pytest.approx(0.5, abs=0.15)
    assert "100.0" in Robustness().sentence(found)


def test_what_ignores_the_group_loses_nothing():
    found = measure(lambda x: torch.stack([x.mean((1, 2, 3)), x.std((1, 2, 3))], 1), "rot4")
    assert found.scalars["loss"] == 0
    assert found.intervals["loss"] == (0, 0)


def test_without_labels_there_is_no_answer():
    with pytest.raises(Inapplicable, match="labels"):
        measure(lambda x: x.flatten(1), "rot4", labels=torch.full((120,), -1))
