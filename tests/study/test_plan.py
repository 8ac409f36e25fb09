"""A study is a product of lists, with changes for single values, and its runs are named by their content."""

from dataclasses import dataclass, fields, replace

import pytest
import yaml

from duet.error import DuetError
from duet.study import expand, read_study
from duet.study.computation import record_run
from duet.training import Experiment

METHODS = ["simclr", {"name": "duet0", "method": "duet", "weight": 0}, "duet"]


def test_every_combination_is_a_run_in_the_order_of_the_lists():
    study = expand({"base": {"preset": "demo"}, "vary": {"method": ["simclr", "duet"], "seed": [0, 1]}})
    assert [run.name for run in study.runs] == ["simclr-seed0", "simclr-seed1", "duet-seed0", "duet-seed1"]
    assert [(run.experiment.method, run.experiment.seed) for run in study.runs] == [
        *(("simclr", 0), ("simclr", 1), ("duet", 0), ("duet", 1))
    ]


def test_a_run_is_what_the_preset_with_these_changes_is():
    [run] = expand({"base": {"preset": "cpu", "epochs": 3, "data": "digits"}}).runs
    assert run.experiment == Experiment.preset("cpu", epochs=3, data="digits")
    assert run.evaluate == ("classification",)
    assert run.effort == "standard"


def test_a_value_may_have_a_name_and_change_several_keys():
    study = expand({"base": {"preset": "demo"}, "vary": {"method": METHODS}})
    assert [(r.name, r.experiment.method, r.experiment.weight) for r in study.runs] == [
        *(("simclr", "simclr", None), ("duet0", "duet", 0.0), ("duet", "duet", 100.0))
    ]


def test_rules_change_and_skip_combinations_by_the_names_of_their_values():
    study = expand(
        {
            "base": {"preset": "demo"},
            "vary": {"method": [*METHODS, "essl"], "group": ["rot4", "scale", "vflip"]},
            "change": [
                {"when": {"method": "duet", "group": ["rot4", "vflip"]}, "set": {"weight": 7}},
                {"when": {"group": "rot4"}, "set": {"bins": 4}},
            ],
            "skip": [{"method": "essl", "group": "scale"}],
        }
    )
    found = {run.name: run.experiment for run in study.runs}
    assert len(found) == 11
    assert "essl-scale" not in found
    assert {name: e.weight for name, e in found.items() if e.method == "duet"} == {
        **{"duet0-rot4": 0, "duet0-scale": 0, "duet0-vflip": 0},
        **{"duet-rot4": 7, "duet-scale": 100, "duet-vflip": 7},
    }
    assert {name for name, e in found.items() if e.bins == 4} == {n for n in found if n.endswith("rot4")}


def test_the_hash_is_of_what_decides_the_weights_alone():
    [run] = expand({"base": {"preset": "demo"}}).runs
    assert replace(run, experiment=replace(run.experiment, nodes=2)).hash == run.hash
    assert replace(run, evaluate=("recovery",)).hash == run.hash
    assert replace(run, experiment=replace(run.experiment, lr=0.5)).hash != run.hash


def test_the_hash_stays_or_finished_runs_would_be_computed_again():
    [run] = expand({"base": {"method": "simclr", "group": "rot4", "lr": 0.001, "epochs": 15}}).runs
    assert run.hash == "0be09f6e8b11"


@dataclass(frozen=True)
class Wider(Experiment):
    """An Experiment with keys that a later version might have."""

    later_number: int = 2
    later_list: tuple[str, ...] = ()


def test_a_key_that_is_new_invalidates_no_record_where_it_is_at_its_default(monkeypatch):
    [before] = expand({"base": {"preset": "demo", "bins": 16}}).runs
    record = record_run(before, {}, {}, True)
    monkeypatch.setattr("duet.study.plan.Experiment", Wider)
    wider = replace(
        before, experiment=Wider(**{e.name: getattr(before.experiment, e.name) for e in fields(Experiment)})
    )
    assert wider.hash == before.hash
    assert record.answers(replace(wider, evaluate=()))
    for changes in ({"later_number": 4}, {"later_list": ("16@0.5",)}):
        other = replace(wider, evaluate=(), experiment=replace(wider.experiment, **changes))
        assert other.hash != before.hash
        assert not record.answers(other)
        newer = record_run(replace(other, evaluate=()), {}, {}, True)
        assert newer.answers(other)
        assert not newer.answers(replace(wider, evaluate=()))


def test_only_takes_whole_words_of_a_name():
    study = expand({"base": {"preset": "demo"}, "vary": {"method": METHODS, "seed": [1, 10]}})
    assert [run.name for run in study.only(["duet", "simclr-seed1"]).runs] == [
        *("simclr-seed1", "duet-seed1", "duet-seed10")
    ]
    with pytest.raises(DuetError, match="no run has rot4 in its name"):
        study.only(["rot4"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bases": {}}, "unknown key 'bases' .did you mean 'base'"),
        ({"base": {"epoch": 3}}, "unknown key 'epoch'"),
        ({"base": {"preset": "dmo"}}, "no preset 'dmo'"),
        ({"vary": {"seeds": [1]}}, "unknown key 'seeds' .did you mean 'seed'"),
        ({"vary": {"seed": 3}}, "vary takes lists"),
        ({"vary": {"seed": [3, 3]}}, "seed has 3 twice"),
        ({"vary": {"kind": [{"lr": 3}]}}, "needs a name"),
        ({"vary": {"lr": ["fast"]}}, "lr"),
        ({"vary": {"lr": [1], "kind": [{"name": "a", "lr": 3}]}}, "sets lr, which another list sets too"),
        ({"vary": {"seed": [1]}, "skip": [{"method": "duet"}]}, "asks for 'method', which does not vary"),
        ({"vary": {"seed": [1]}, "skip": [{"seed": 2}]}, "asks for seed '2'"),
        ({"vary": {"seed": [1]}, "skip": [{"seed": 1}]}, "every combination is skipped"),
        ({"vary": {"seed": [1]}, "change": [{"when": {"seed": 1}}]}, "a change is"),
        ({"vary": {"method": ["essl"], "group": ["scale"]}}, "scale"),
        ({"evaluate": ["classify"]}, "no evaluation classify"),
        ({"effort": "huge"}, "no effort 'huge'"),
        ({"base": {"encoder": "os:system"}}, "give --plugin os"),
        ({"vary": {"encoder": ["os:system"]}}, "give --plugin os"),
        ({"base": {"plugins": ["antigravity"]}}, "give --plugin antigravity"),
        ({"vary": {"seed": list(range(1000)), "bins": list(range(1000))}}, "1000000 combinations"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_runs(values, message):
    with pytest.raises(DuetError, match=message) as caught:
        expand(values)
    assert "\n" not in str(caught.value)


def test_a_file_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"base": {"preset": "demo"}, "vary": {"area": [[0.2, 1.0], [0.5, 1.0]]}}))
    study = read_study(path)
    assert study.name == "mine"
    assert [run.name for run in study.runs] == ["area0.2_1.0", "area0.5_1.0"]
    path.write_text("- 1")
    with pytest.raises(DuetError, match="must hold"):
        read_study(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vary": {"method": ["duet"]}, "skip": {"method": "dut"}}, "did you mean 'duet'?"),
        ({"vary": {"method": ["duet"]}, "skip": {"methd": "duet"}}, "did you mean 'method'?"),
        ({"effort": "standart"}, "did you mean 'standard'?"),
    ],
)
def test_a_word_that_is_not_known_is_answered_with_the_nearest(values, message):
    with pytest.raises(DuetError, match=message.replace("?", "[?]")):
        expand(values)
