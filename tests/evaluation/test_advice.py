"""One sentence a row, and each only where its own test holds."""

import math

import pytest

from duet.evaluation.advice import FEW, HARDLY, HELD, LOST, MUCH, READABLE, advise, known_share
from duet.groups import GROUPS

ROTATION = GROUPS["rot360"]


def scalars(error=9.0, sensitivity=1.0, before=0.9, after=0.4):
    found = {
        "spectrum/median_difference_error_degrees": error,
        "spectrum/constant_difference_error_degrees": 90.0,
        "equivariance/sensitivity": sensitivity,
    }
    if before is not None:
        loss = {"loss": before - after, "knn_untouched": before, "knn_transformed": after}
        found |= {f"robustness/{key}": value for key, value in loss.items()}
    return found


def sentence(low=0.3, high=0.6, group=ROTATION, **numbers):
    return advise(scalars(**numbers), {"robustness/loss": (low, high)}, group)


def test_the_four_sentences():
    assert sentence() == (
        "turn-sensitive: align before retrieval; neighbours of the right class fall from 90.0\N{NO-BREAK SPACE}% "
        "to 40.0\N{NO-BREAK SPACE}%"
    )
    assert sentence(error=80.0).startswith("will break under rotation: neighbours")
    assert sentence(sensitivity=0.01, error=80.0).startswith("rotation-blind")
    assert sentence(low=-0.02, high=0.03).startswith("holds under rotation, and knows it")


@pytest.mark.parametrize(
    ("numbers", "holds"),
    [
        ({"sensitivity": HARDLY - 1e-6, "error": 80.0}, "rotation-blind"),
        ({"sensitivity": HARDLY - 1e-6, "error": 90 * (1 - READABLE)}, ""),
        ({"sensitivity": HARDLY, "error": 80.0}, "will break"),
        ({"low": LOST}, "turn-sensitive"),
        ({"low": LOST - 1e-6}, ""),
        ({"error": 90 * (1 - READABLE)}, "turn-sensitive"),
        ({"error": 90 * (1 - READABLE) + 1e-6}, "will break"),
        ({"low": 0.0, "high": HELD}, "holds"),
        ({"low": 0.0, "high": HELD + 1e-6}, ""),
        ({"low": 0.0, "high": HELD, "error": 80.0}, ""),
    ],
)
def test_each_test_has_its_edge(numbers, holds):
    found = sentence(**numbers)
    assert found.startswith(holds)
    assert bool(found) == bool(holds)


def test_without_labels_the_features_way_counts():
    assert sentence(before=None, sensitivity=MUCH).startswith("turn-sensitive")
    assert sentence(before=None, sensitivity=MUCH, error=80.0).startswith("will break under rotation: its features")
    assert sentence(before=None, sensitivity=MUCH - 1e-6) == ""


def test_too_few_views_break_nothing():
    def told(views, **numbers):
        return advise(scalars(**numbers), {"robustness/loss": (0.3, 0.6)}, ROTATION, features=800, views=views)

    assert told(FEW * 800 - 1, error=80.0) == "too few views to tell: 2,399 for 800 features; take at least 2,400"
    assert told(FEW * 800, error=80.0).startswith("will break")
    assert told(FEW * 800 - 1, error=80.0, sensitivity=0.01).startswith("too few views")
    assert told(800, error=9.0).startswith("turn-sensitive")  # what is read well was read with enough
    assert told(800, error=80.0, before=None, sensitivity=0.1) == ""


def test_what_was_not_measured_advises_nothing():
    assert advise({}, {}, ROTATION) == ""
    assert advise({"equivariance/sensitivity": math.nan}, {}, ROTATION) == ""
    assert (
        advise({"robustness/loss": 0.5, "robustness/knn_untouched": 1, "robustness/knn_transformed": 0.5}, {}, ROTATION)
        == ""
    )


def test_how_much_is_known():
    assert known_share(scalars(error=9.0), ROTATION) == pytest.approx(0.9)
    finite = {"spectrum/difference_accuracy": 0.85, "spectrum/constant_difference_accuracy": 0.25}
    assert known_share(finite, GROUPS["rot4"]) == pytest.approx(0.8)
    assert known_share({"equivariance/error_fitted": 0.3}, GROUPS["hue"]) == pytest.approx(0.7)
    assert math.isnan(known_share({}, GROUPS["hue"]))


def test_what_does_not_turn_is_not_aligned():
    numbers = {**scalars(), "equivariance/error_fitted": 0.2}
    numbers = {key: value for key, value in numbers.items() if "spectrum" not in key}
    found = advise(numbers, {"robustness/loss": (0.3, 0.6)}, GROUPS["hue"])
    assert found.startswith("hue-sensitive: undo it before retrieval")
