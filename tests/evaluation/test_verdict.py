"""A number is worth what it is worth beside chance and beside who has learned nothing."""

import pytest

from duet.evaluation import Result
from duet.evaluation.result import Scores
from duet.evaluation.verdict import Level, judge


def recovery(value, ends, rivals=None):
    """A result of recovery with the given median error; rivals by their probe's error."""
    scalars = {"median_error_degrees": value, "probe_median_error_degrees": value, "constant_median_error_degrees": 90.0}
    beside = {
        name: Scores({"probe_median_error_degrees": own}, {"probe_median_error_degrees": (own - 1, own + 1)})
        for name, own in (rivals or {}).items()
    }
    facts = {"unit": "degrees", "relative": False, "title": "rotation"}
    return Result("recovery", scalars, {}, facts, {"median_error_degrees": ends}, beside)


@pytest.mark.parametrize(
    ("value", "ends", "rivals", "level"),
    [
        (9.0, (8, 10), {"pixels": 18.0, "untrained": 43.0}, Level.LEARNED),
        (9.0, (8, 10), {"pixels": 10.5, "untrained": 43.0}, Level.PARTLY),  # the intervals touch
        (9.0, (8, 10), {"pixels": 5.0}, Level.PARTLY),
        (9.0, (8, 10), {}, Level.PARTLY),  # nobody knows how good the rivals are
        (84.5, (83, 86), {"pixels": 89.0}, Level.NOT),  # beyond chance, and yet nothing
        (60.0, (30, 89), {"pixels": 89.9}, Level.NOT),  # nobody knows
        (90.0, (88, 92), {}, Level.NOT),
    ],
)
def test_levels_of_an_error(value, ends, rivals, level):
    assert judge(recovery(value, ends, rivals)).level is level


def classification(value, ends, pixels):
    rival = Scores({"logistic": pixels}, {"logistic": (pixels - 0.02, pixels + 0.02)})
    return Result("classification", {"logistic": value, "chance": 0.1}, {}, {}, {"logistic": ends}, {"pixels": rival})


@pytest.mark.parametrize(
    ("value", "ends", "pixels", "level"),
    [
        (0.96, (0.95, 0.97), 0.90, Level.LEARNED),
        (0.90, (0.88, 0.92), 0.95, Level.PARTLY),
        (0.12, (0.11, 0.13), 0.90, Level.NOT),
    ],
)
def test_levels_of_a_share(value, ends, pixels, level):
    assert judge(classification(value, ends, pixels)).level is level


def test_it_says_the_number_its_interval_and_who_stands_beside():
    verdict = judge(recovery(9.46, (8.8, 10.3), {"pixels": 17.9}))
    assert verdict.value == "9.5° [8.8° to 10.3°]"
    assert verdict.beside == "chance 90.0°, pixels 17.9°"
    verdict = judge(classification(0.962, (0.95, 0.973), 0.902))
    assert verdict.value.replace("\N{NO-BREAK SPACE}", " ") == "96.2 % [95.0 % to 97.3 %]"


def test_who_claims_nothing_is_not_judged():
    assert judge(Result("dependence", {"delta_p_images": 0.1})) is None
    assert judge(Result("somebodys", {"value": 0.1})) is None
    assert judge(Result("classification", {"logistic": float("nan"), "chance": 0.1})) is None


def test_rivals_without_the_number_do_not_count():
    result = recovery(9.0, (8, 10), {"pixels": 18.0})
    result.rivals["untrained"] = Scores({})
    assert judge(result).level is Level.LEARNED
