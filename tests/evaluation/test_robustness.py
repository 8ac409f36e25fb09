"""Nearest neighbours of transformed images."""

import pytest
import torch

from duet.evaluation import EVALUATIONS, Inapplicable, Sizes, as_subject
from duet.evaluation.bootstrap import NORMAL
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
    low, high = found.intervals["loss"]  # of all test images, none of which changed its class
    assert -low == high == pytest.approx(NORMAL**2 / (found.provenance["labelled_test"] + NORMAL**2))


def test_untouched_images_are_those_of_classification():
    context = make_context(as_subject(lambda x: x.flatten(1), "rot4", bars()), bars(), GROUPS["rot4"], LABELS, SMALL)
    found, wanted = Robustness().measure(context), EVALUATIONS["classification"].measure(context)
    assert found.scalars["knn_untouched"] == wanted.scalars["knn"]
    assert found.intervals["knn_untouched"] == wanted.intervals["knn"]
    assert found.provenance["labelled_test"] == wanted.provenance["labelled_test"] == len(context.test)


def test_a_disc_hides_the_corners_of_untouched_images_too():
    group = GROUPS["rot360"].configured(corners="circle")
    context = make_context(as_subject(lambda x: x.flatten(1), group, bars()), bars(), group, LABELS, SMALL)
    z = context.test_features_at(None)
    images = next(iter(context.test.in_order(200)))[0]
    assert torch.allclose(z, group.mask(images.float() / (255 if images.dtype == torch.uint8 else 1)).flatten(1))
    assert not torch.equal(z, context.test_features.z)


def test_without_labels_there_is_no_answer():
    with pytest.raises(Inapplicable, match="labels"):
        measure(lambda x: x.flatten(1), "rot4", labels=torch.full((120,), -1))
