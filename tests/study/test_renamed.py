"""Study files and records in former words are read; what is written has the new ones."""

import json
import logging

import pytest

from duet.error import DuetError
from duet.study import expand
from duet.study.record import FORMAT, begun, finished, read_record

OF_FORMAT_1 = {
    "format": 1,
    "name": "simclr",
    "labels": {},
    "evaluate": ["classification"],
    "sizes": "demo",
    "scalars": {"classification/logistic": 0.5},
    "rivals": {"pixels": {"classification/logistic": 0.4}},
    "beside_rivals": ["classification"],
}


@pytest.fixture
def run():
    [run] = expand({"base": {"preset": "demo"}, "baselines": True}).runs
    return run


def old_record(run, **changes):
    return {**OF_FORMAT_1, "name": run.name, "hash": run.hash, "settings": run.experiment.to_dict(), **changes}


def test_a_study_file_in_former_words_is_the_same_study_and_one_line_says_the_new_words(caplog):
    values = {"base": {"preset": "demo"}, "vary": {"seed": [0, 1]}}
    new = expand({**values, "effort": "standard", "baselines": True})
    assert not caplog.messages
    with caplog.at_level(logging.WARNING):
        old = expand({**values, "sizes": "demo", "rivals": True}, source="my.yaml")
    assert old == new
    [line] = caplog.messages
    assert line == (
        "my.yaml uses former names, which still work; write effort instead of sizes, effort: standard instead of demo, "
        "baselines instead of rivals"
    )
    caplog.clear()
    assert expand({**values, "effort": "demo", "baselines": True}) == new
    assert "effort: standard instead of demo" in caplog.messages[0]
    assert expand({**values, "sizes": "quick"}).runs[0].effort == "quick"


def test_a_key_and_its_former_name_together_are_refused():
    with pytest.raises(DuetError, match="has both sizes and effort, which is its new name; remove sizes"):
        expand({"base": {"preset": "demo"}, "sizes": "quick", "effort": "quick"})


def test_a_record_of_format_1_is_read_in_the_new_words_and_written_in_format_2(tmp_path, run):
    path = tmp_path / "results" / f"{run.key}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(old_record(run)))
    record = finished(tmp_path, run)
    assert record is not None
    assert record.effort == "standard"
    assert record.baselines == {"pixels": {"classification/logistic": 0.4}}
    assert record.beside_baselines == ["classification"]
    record.save(tmp_path)
    plain = json.loads(path.read_text())
    assert plain["format"] == FORMAT == 2
    assert not {"sizes", "rivals", "beside_rivals"} & set(plain)
    assert read_record(path) == record


def test_other_efforts_of_format_1_keep_their_name(tmp_path, run):
    path = tmp_path / "results" / f"{run.key}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(old_record(run, sizes="quick")))
    assert read_record(path).effort == "quick"
    assert begun(tmp_path, run) is None


@pytest.mark.parametrize(
    "damage", [{"sizes": None}, {"sizes": ["demo"]}, {"rivals": 3}, {"format": 3}, {"format": [1]}]
)
def test_a_damaged_record_of_format_1_is_no_record(tmp_path, run, damage):
    path = tmp_path / "results" / f"{run.key}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(old_record(run, **damage)))
    assert finished(tmp_path, run) is None
