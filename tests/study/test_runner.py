"""A study skips what is finished, goes on with what is broken and past what fails, and ends with the same numbers."""

import json

import pytest
import yaml

from duet.cli import main
from duet.study import expand, read_records
from duet.study.runner import run_study


def study_of(base, **vary):
    return expand({"base": base, "vary": vary, "sizes": "quick"})


def test_every_run_is_trained_and_evaluated_once(tmp_path, tiny, monkeypatch):
    study = study_of(tiny, method=["simclr", "duet"])
    outcome = run_study(study, tmp_path)
    assert outcome.code == 0
    records = read_records(tmp_path)
    assert [record.name for record in records] == ["duet", "simclr"]
    for record, run in zip(records, reversed(study.runs), strict=True):
        assert record.key == run.key
        assert 0 < record.scalars["classification/logistic"] < 1
        low, high = record.intervals["classification/logistic"]
        assert low <= record.scalars["classification/logistic"] <= high
        assert record.settings == run.experiment.to_dict()
        assert record.seconds["train"] > 0
        assert not (tmp_path / "runs" / run.key / "checkpoints").exists()
    monkeypatch.setattr("duet.study.computation.compute", None)  # finished runs need no computing
    assert run_study(study, tmp_path).done == {record.name: record for record in records}


def test_another_evaluation_needs_no_other_training(tmp_path, tiny, monkeypatch):
    values = {"base": tiny, "sizes": "quick"}
    run_study(expand(values), tmp_path)
    monkeypatch.setattr("duet.study.computation.train", None)
    outcome = run_study(expand({**values, "evaluate": ["classification", "marginals"]}), tmp_path)
    assert outcome.failed == {}
    [record] = read_records(tmp_path)
    assert {key.split("/")[0] for key in record.scalars} == {"classification", "marginals"}


def test_a_failing_run_does_not_stop_the_others(tmp_path, tiny, capsys):
    path = tmp_path / "mine.yaml"
    broken = {"name": "broken", "data": str(tmp_path / "nowhere")}
    values = {"base": tiny, "vary": {"images": [broken, {"name": "digits", "data": "digits"}]}, "sizes": "quick"}
    path.write_text(yaml.safe_dump(values))
    assert main(["study", "run", str(path), "--out", str(tmp_path / "out"), "--keep", "none"]) == 1
    out, err = capsys.readouterr()
    assert "1 of 2 runs are finished" in out
    assert "imagesbroken failed: " in err
    assert [record.labels for record in read_records(tmp_path / "out")] == [{"images": "digits"}]
    assert list((tmp_path / "out" / "runs").iterdir()) == []


@pytest.mark.parametrize("damage", ["", "{}", '{"format": 1}', "\x00"])
def test_a_damaged_record_is_computed_again(tmp_path, tiny, damage):
    study = expand({"base": tiny, "sizes": "quick"})
    [before] = run_study(study, tmp_path).done.values()
    (tmp_path / "results" / f"{before.key}.json").write_text(damage)
    [after] = run_study(study, tmp_path).done.values()
    assert after.scalars == before.scalars
    assert not after.whole
    assert json.loads((tmp_path / "results" / f"{before.key}.json").read_text())["name"] == "duet"
