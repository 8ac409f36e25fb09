"""The time left is learned from finished runs, from those most alike first."""

from dataclasses import replace

import pytest

from duet.study import expand
from duet.study.computation import record_run, run_folder
from duet.study.cost import expected_seconds, say_seconds, seconds_left
from duet.study.runner import preview

VALUES = {"base": {"preset": "demo", "epochs": 10}, "vary": {"method": ["simclr", "essl"], "seed": [0, 1]}}


def took(run, train, evaluate=5.0, whole=True):
    return record_run(run, {}, {"train": train, "evaluate": evaluate}, whole)


def test_runs_that_are_most_alike_count_first():
    first, again, essl, other = expand(VALUES).runs
    assert expected_seconds(first, []) is None
    assert expected_seconds(again, [took(first, 100), took(essl, 300)]) == pytest.approx(105)
    assert expected_seconds(other, [took(first, 100)]) == pytest.approx(105)  # another method is better than nothing
    longer = replace(again, experiment=replace(again.experiment, epochs=20))
    assert expected_seconds(longer, [took(first, 100)]) == pytest.approx(205)
    assert expected_seconds(again, [took(first, 3, whole=False)]) is None  # the rest of a run that was stopped


def test_of_a_trained_run_only_what_is_measured_later_is_left():
    first, again, essl, _ = expand(VALUES).runs
    before = took(first, 100)
    assert expected_seconds(again, [before], trained=True) == pytest.approx(5)
    later = replace(before, seconds={**before.seconds, "later": 40.0})
    assert expected_seconds(again, [took(again, 100), later], trained=True) == pytest.approx(40)
    assert expected_seconds(essl, [later], trained=True) == pytest.approx(40)
    assert expected_seconds(again, [later]) == pytest.approx(105)
    assert seconds_left([again, essl], [later], trained={again.key}) == pytest.approx(40 + 105)


def test_runs_at_the_same_time_share_what_is_left():
    runs = expand(VALUES).runs
    records = [took(runs[0], 95), took(runs[2], 195)]
    assert seconds_left(runs, records) == pytest.approx(600)
    assert seconds_left(runs, records, jobs=2) == pytest.approx(300)
    assert seconds_left(runs, records, jobs=100) == pytest.approx(200)  # the longest one
    assert seconds_left(runs, []) is None
    assert seconds_left([], []) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (41.6, "42 s"), (720, "12 min"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h")],
)
def test_seconds_in_words(seconds, text):
    assert say_seconds(seconds) == text


def test_a_preview_lists_runs_with_their_cost(tmp_path):
    study = expand(VALUES)
    assert "4 runs, 0 finished, 4 to train, the time is known once" in preview(study, tmp_path)
    took(study.runs[0], 95).save(tmp_path)
    lines = preview(study, tmp_path).splitlines()
    assert lines[0].endswith("10 epochs  finished")
    assert lines[1].endswith("10 epochs  train: 2 min")
    assert lines[-1] == "4 runs, 1 finished, 3 to train: 5 min"


def test_a_preview_counts_no_training_that_is_over(tmp_path):
    study = expand(VALUES)
    took(study.runs[0], 95).save(tmp_path)
    model = run_folder(tmp_path, study.runs[1]) / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    assert preview(study, tmp_path).splitlines()[1].endswith("10 epochs  measure: 5 s")
    assert preview(study, tmp_path).splitlines()[-1] == "4 runs, 1 finished, 2 to train, 1 to measure: 3 min"
    for run in study.runs:
        took(run, 95).save(tmp_path)
    assert preview(study, tmp_path).splitlines()[-1] == "4 runs, 4 finished: nothing to compute"


def test_a_preview_learns_from_other_studies_of_the_folder(tmp_path):
    took(expand(VALUES).runs[0], 95).save(tmp_path)
    (tmp_path / "results" / "damaged.json").write_text("{")
    [run] = expand({"base": {"preset": "demo", "epochs": 10, "method": "simclr", "seed": 7}}).runs
    assert preview(expand({"base": run.experiment.to_dict()}), tmp_path).splitlines()[0].endswith("train: 2 min")
