"""A cause is named only where its own test holds, and the first one is named."""

from dataclasses import replace

import numpy as np
import pytest

import duet
from duet.evaluation import Result, Sizes
from duet.evaluation.verdict import judge
from duet.report import write_report
from duet.report.cause import FEW_IMAGES, FEW_STEPS, find_cause, steps_of
from duet.report.gathering import Run, read_run
from duet.report.judgement import open_with
from tests.making import make_results
from tests.report.test_report import words

BLAME = ("come at many", "have none", "already come")


def case(steps=FEW_STEPS, images=FEW_IMAGES, marginals=None, error=85.0, **config):
    """The cause for a run that reads to so many degrees."""
    result = make_results(train_images=images)[1]
    ends = {"median_error_degrees": (error - 1, error + 1)}
    scalars = {**result.scalars, "median_error_degrees": error}
    result = replace(result, scalars=scalars, intervals=ends)
    found = {"recovery": result}
    if marginals is not None:
        names = ("ambiguity", "reading", "reading_of_differences")
        found["marginals"] = Result("marginals", dict(zip(names, marginals, strict=True)))
    run = Run("run", {"method": "duet", **config}, metrics={"step": np.array([1.0, steps])}, results=found)
    return find_cause(run, result, judge(result))


def test_too_few_steps_come_first():
    text = case(steps=5, images=320, marginals=(0.9, 0.0, 0.8))
    assert "5 steps" in text
    assert "320" not in text
    assert not any(blame in text for blame in BLAME)
    assert "1 step," in case(steps=1)


def test_then_too_few_images_and_then_images_without_an_upright():
    assert "320 training images" in case(images=320, marginals=(0.9, 0.0, 0.8))
    assert "--reference relative" in case(marginals=(0.9, 0.0, 0.8))


@pytest.mark.parametrize(
    "marginals",
    [
        None,
        (0.9, 0.0, 0.0),  # neither elements nor differences are read: the model has not learned
        (0.9, 0.7, 0.7),  # both alike: it reads coarsely
        (0.3, 0.0, 0.8),  # most images are upright
    ],
)
def test_no_test_no_cause(marginals):
    assert case(marginals=marginals) == ""


def test_who_does_not_ask_for_it_is_told_so():
    assert "SimCLR does not ask for it" in case(steps=5, method="simclr")
    assert "weight of the group loss is 0" in case(steps=5, weight=0)


def test_what_is_read_best_needs_no_cause_unless_a_rival_is_ahead():
    assert case(steps=5, error=30.0) != ""
    result = replace(make_results()[1], rivals={})
    assert find_cause(Run("run", {"method": "duet"}, metrics={"step": np.array([5.0])}), result, judge(result)) == ""


def test_steps_are_those_logged_or_else_counted():
    assert steps_of(Run("run", {"accumulate": 2}, metrics={"step": np.array([3.0, 9.0, np.nan])})) == 5
    exact = {"accumulate": 2, "exact": True}
    assert steps_of(Run("run", exact, metrics={"step": np.array([3.0, 9.0, np.nan])})) == 9
    result = make_results(train_images=320)[1]
    told = {"epochs": 5, "batch_size": 128}
    assert steps_of(Run("run", told, results={"recovery": result})) == 10
    assert steps_of(Run("run", {"epochs": 5}, results={"recovery": result})) is None
    assert steps_of(Run("run", {"epochs": True, "batch_size": "many"})) is None


def test_five_steps_on_320_images_are_blamed_on_the_steps(tmp_path):
    experiment = duet.Experiment.preset(
        "demo", subset=320, batch_size=256, epochs=5, warmup_epochs=0, projector=[16], action_pairs=64
    )
    run = duet.train(experiment, tmp_path / "run", quiet=True)
    sizes = Sizes(test=200, images=40, few=4, sweep=12, probe=200, views=2)
    results = duet.evaluate(run, ["recovery", "marginals"], sizes=sizes, progress=False)
    assert not any(blame in results["marginals"].provenance["advice"] for blame in BLAME)
    (line,) = open_with([read_run(run, "run")])
    assert (line.level, line.head) == ("not", "Rotation: not learned")
    assert "5 steps" in line.cause
    page = words(write_report([run], tmp_path / "page.html").read_text())
    assert page.index("Rotation: not learned.") < page.index("Recovery")
    assert "The model cannot read rotation off transformed images" in page
    assert not any(blame in page for blame in BLAME)
