"""A number is worth what it is worth beside chance and beside who has learned nothing."""

import pytest

from duet.evaluation import Result
from duet.evaluation.result import Scores
from duet.evaluation.verdict import Level, Standing, judge, say


def recovery(value, ends, rivals=None):
    """A result of recovery with the given median error; rivals by their probe's error."""
    scalars = {
        "median_error_degrees": value,
        "probe_median_error_degrees": value,
        "constant_median_error_degrees": 90.0,
    }
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


def test_patches_that_reach_more_are_said_to():
    verdict = judge(recovery(9.46, (8.8, 10.3), {"pixels": 17.9, "untrained": 43.0, "patches": 6.0}))
    assert verdict.level is Level.PARTLY
    told = say(verdict)
    assert "of an untrained network 43.0°, of k-means patches 6.0° and ignoring" in told
    assert told.endswith("Better: k-means patches.")


def test_it_says_the_number_its_interval_and_who_stands_beside():
    verdict = judge(recovery(9.46, (8.8, 10.3), {"pixels": 17.9}))
    assert verdict.value == "9.5° [8.8° to 10.3°]"
    assert verdict.beside == "chance 90.0°, pixels 17.9°"
    verdict = judge(classification(0.962, (0.95, 0.973), 0.902))
    assert verdict.value.replace("\N{NO-BREAK SPACE}", " ") == "96.2 % [95.0 % to 97.3 %]"


def test_a_unit_that_is_a_word_is_said_once():
    facts = {"unit": "factor", "relative": False, "title": "brightness"}
    scalars = {"median_error_factor": 0.11, "probe_median_error_factor": 0.2, "constant_median_error_factor": 0.2}
    result = Result("recovery", scalars, {}, facts, {"median_error_factor": (0.103, 0.121)})
    assert judge(result).value == "0.11 factor [0.103 to 0.121]"


def test_who_claims_nothing_is_not_judged():
    assert judge(Result("dependence", {"delta_p_images": 0.1})) is None
    assert judge(Result("somebodys", {"value": 0.1})) is None
    assert judge(Result("classification", {"logistic": float("nan"), "chance": 0.1})) is None


def test_rivals_without_the_number_do_not_count():
    result = recovery(9.0, (8, 10), {"pixels": 18.0})
    result.rivals["untrained"] = Scores({})
    assert judge(result).level is Level.LEARNED


def test_it_is_said_in_words_with_rivals_and_chance():
    text = say(judge(recovery(9.46, (8.8, 10.3), {"pixels": 17.9})))
    assert text == (
        "Rotation: learned. Read to 9.5° [8.8° to 10.3°], where a linear probe of the pixels reaches 17.9° and "
        "ignoring the image 90.0°."
    )


@pytest.mark.parametrize(
    ("value", "rivals", "end"),
    [
        (9.0, {"pixels": 5.0, "untrained": 43.0}, "Better: the pixels."),
        (9.0, {"pixels": 10.5, "untrained": 43.0}, "Not clearly behind: the pixels."),
        (9.0, {"pixels": 5.0, "untrained": 9.0}, "Better: the pixels. Not clearly behind: an untrained network."),
        (9.0, {}, "No rival was measured beside it."),
        (88.0, {"pixels": 5.0}, "That is not clearly better than ignoring the image."),
    ],
)
def test_it_says_who_is_not_behind(value, rivals, end):
    assert say(judge(recovery(value, (value - 1, value + 1), rivals))).endswith(f" {end}")


def test_where_each_rival_stands():
    verdict = judge(recovery(9.0, (8, 10), {"pixels": 5.0, "untrained": 10.5, "other": 40.0}))
    assert [rival.standing for rival in verdict.rivals.values()] == [
        *(Standing.BETTER, Standing.EQUAL, Standing.WORSE),
    ]
    verdict = judge(classification(0.9, (0.88, 0.92), 0.95))
    assert verdict.rivals["pixels"].standing is Standing.BETTER
    assert judge(classification(0.9, (0.88, 0.92), 0.8)).rivals["pixels"].standing is Standing.WORSE


def test_no_share_is_more_than_all():
    result = Result("equivariance", {"error_fitted": 249.4}, {}, {}, {"error_fitted": (200.0, 300.0)})
    verdict = judge(result)
    assert verdict.level is Level.NOT
    assert verdict.value.replace("\N{NO-BREAK SPACE}", " ") == "over 100 %"
