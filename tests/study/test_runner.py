"""A study skips what is finished, goes on with what is broken and past what fails, and ends with the same numbers."""

import contextlib
import json
import shlex
import signal
import time
from dataclasses import replace

import pytest
import torch
import yaml

from duet.cli import main
from duet.error import DuetError
from duet.evaluation import evaluate
from duet.lock import Busy, locked
from duet.study import expand, read_records, read_study
from duet.study.command import command_lines
from duet.study.computation import record_run, run_folder
from duet.study.runner import run_study
from duet.training.experiment import from_dict, method_options
from duet.training.machine import this_machine
from tests import warm


def study_of(base, **vary):
    return expand({"base": base, "vary": vary, "effort": "quick"})


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
        assert record.machine == {**this_machine(), "precision": "32"}
        assert not (tmp_path / "runs" / run.key / "checkpoints").exists()
    monkeypatch.setattr("duet.study.computation.compute", None)  # finished runs need no computing
    assert run_study(study, tmp_path).done == {record.name: record for record in records}


def test_another_evaluation_needs_no_other_training(tmp_path, tiny, monkeypatch):
    values = {"base": tiny, "effort": "quick"}
    run_study(expand(values), tmp_path)
    monkeypatch.setattr("duet.study.computation.train", None)
    outcome = run_study(expand({**values, "evaluate": ["classification", "marginals"]}), tmp_path)
    assert outcome.failed == {}
    [record] = read_records(tmp_path)
    assert {key.split("/")[0] for key in record.scalars} == {"classification", "marginals"}


def test_baselines_stand_beside_every_run_and_are_measured_once(tmp_path, tiny, monkeypatch):
    values = {"base": tiny, "vary": {"method": ["simclr", "duet"]}, "effort": "quick"}
    run_study(expand(values), tmp_path)
    assert all(record.baselines == {} for record in read_records(tmp_path))
    monkeypatch.setattr("duet.study.computation.train", None)
    study = expand({**values, "baselines": True})
    assert run_study(study, tmp_path).failed == {}
    duet, simclr = read_records(tmp_path)
    assert duet.baselines == simclr.baselines
    assert set(duet.baselines) == {"pixels", "untrained", "patches"}
    direct = evaluate(run_folder(tmp_path, study.runs[1]), "classification", sizes="quick", out=tmp_path / "direct")
    pixels = direct["classification"].rivals["pixels"].scalars["logistic"]
    assert duet.baseline("pixels").value("classification/logistic") == pixels
    assert duet.baseline("pixels").labels["method"] == "pixels"
    assert duet.value("classification/logistic") == direct["classification"].scalars["logistic"]
    kept = {path.parent.name for path in (tmp_path / "baselines").rglob("classification.json")}
    assert kept == {"pixels", "untrained", "patches"}
    monkeypatch.setattr("duet.study.computation.compute", None)  # nothing is measured again
    run_study(study, tmp_path)
    assert "--no-rivals" not in next(command_lines(study, tmp_path))
    with pytest.raises(DuetError, match="baselines is true or false"):
        expand({**values, "baselines": "pixels"})


def test_a_failing_run_does_not_stop_the_others(tmp_path, tiny, capsys):
    path = tmp_path / "mine.yaml"
    broken = {"name": "broken", "data": str(tmp_path / "nowhere")}
    values = {"base": tiny, "vary": {"images": [broken, {"name": "digits", "data": "digits"}]}, "effort": "quick"}
    path.write_text(yaml.safe_dump(values))
    assert main(["study", "run", str(path), "--out", str(tmp_path / "out"), "--keep", "none"]) == 1
    out, err = capsys.readouterr()
    assert "1 of 2 runs are finished" in out
    assert "imagesbroken failed: " in err
    assert [record.labels for record in read_records(tmp_path / "out")] == [{"images": "digits"}]
    assert list((tmp_path / "out" / "runs").iterdir()) == []


@pytest.mark.parametrize("damage", ["", "{}", '{"format": 1}', "\x00"])
def test_a_damaged_record_is_computed_again(tmp_path, tiny, damage):
    study = expand({"base": tiny, "effort": "quick"})
    [before] = run_study(study, tmp_path).done.values()
    (tmp_path / "results" / f"{before.key}.json").write_text(damage)
    [after] = run_study(study, tmp_path).done.values()
    assert after.scalars == before.scalars
    assert not after.whole
    assert json.loads((tmp_path / "results" / f"{before.key}.json").read_text())["name"] == "duet"


def test_what_another_process_computes_is_waited_for_at_the_end(tmp_path, tiny, monkeypatch):
    study = study_of(tiny, seed=[0, 1])
    order, busy = [], {study.runs[0].hash}

    def computed(run, out, device, keep):
        order.append(run.name)
        return record_run(run, {}, {"train": 1.0}, True)

    def lock(path, wait, name):
        if path.name in busy and not wait:
            raise Busy
        return contextlib.nullcontext()

    monkeypatch.setattr("duet.study.computation.compute", computed)
    monkeypatch.setattr("duet.study.computation.locked", lock)
    assert run_study(study, tmp_path).code == 0
    assert order == ["seed1", "seed0"]


def test_several_at_a_time_give_the_same_numbers_and_go_on_past_a_failure(tmp_path, tiny, monkeypatch):
    broken = {"name": "broken", "data": str(tmp_path / "nowhere")}
    values = {"base": tiny, "vary": {"images": [{"name": "digits"}, broken]}, "effort": "quick"}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # other threads round otherwise
        monkeypatch.setenv(name, str(torch.get_num_threads()))
    outcome = run_study(expand(values), tmp_path / "two", jobs=2)
    assert list(outcome.failed) == ["imagesbroken"]
    assert "nowhere" in outcome.failed["imagesbroken"]
    assert "Traceback" in next((tmp_path / "two" / "failed").glob("imagesbroken-*.txt")).read_text()
    alone = run_study(expand(values).only(["imagesdigits"]), tmp_path / "one")
    assert outcome.done["imagesdigits"].scalars == alone.done["imagesdigits"].scalars


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle_it_ends_with_the_same_table(tmp_path, tiny, stop):
    tiny["epochs"] = 4
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"base": tiny, "vary": {"seed": [0, 1]}, "effort": "quick"}))
    process = warm.Held("duet.methods.Duet.draw_views", "study", "run", path, "--out", tmp_path / "out")
    for _ in range(5):
        process.step()
    process.send_signal(stop)
    process.let_go()
    assert process.wait().returncode == (-9 if stop is signal.SIGKILL else 130)
    assert read_records(tmp_path / "out") == []
    study = read_study(path)
    found = run_study(study, tmp_path / "out")
    unbroken = run_study(study, tmp_path / "unbroken")
    assert {name: record.scalars for name, record in found.done.items()} == {
        name: record.scalars for name, record in unbroken.done.items()
    }


def test_sigterm_ends_the_processes_of_a_study_too(tmp_path, tiny):
    tiny["epochs"] = 2000
    path, out = tmp_path / "mine.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump({"base": tiny, "vary": {"seed": [0, 1]}, "effort": "quick"}))
    process = warm.Running(["study", "run", path, "--out", out, "--jobs", "2"])
    while process.poll() is None and len(list(out.glob("runs/*/config.yaml"))) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait().returncode == 130
    for run in read_study(path).runs:
        with locked(out / ".locks" / run.hash, wait=False):  # Busy where its process lives on
            assert (run_folder(out, run) / "checkpoints").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "--jobs starts at 1"),
        ({"keep": "some"}, "--keep is one of none, model, all"),
        ({"engine": "rya"}, "no engine 'rya' .did you mean 'ray'"),
    ],
)
def test_wrong_options_are_said(tmp_path, tiny, options, message):
    with pytest.raises(DuetError, match=message):
        run_study(expand({"base": tiny}), tmp_path, **options)


def test_command_lines_give_the_runs_of_the_study(tmp_path, tiny, capsys):
    odd = {"name": "odd", "method": "simclr", "options": {"leave_out": True}, "stack": "full", "channels": 3}
    study = expand({"base": tiny, "vary": {"kind": [odd, {"name": "plain", "weight": 3}], "seed": [1]}})
    out = tmp_path / "with space"
    for run, line in zip(study.runs, command_lines(study, out), strict=True):
        words = [word.rstrip(";") for word in shlex.split(line)]
        assert main([*words[words.index("else") + 2 : words.index("fi")], "--print-config"]) == 0
        shown = from_dict(yaml.safe_load(capsys.readouterr().out))
        assert method_options(shown) == method_options(run.experiment)
        assert replace(shown, options={}) == replace(run.experiment, options={})
        folder = str(run_folder(out, run))
        assert words[words.index("&&") + 1 :] == [
            *("duet", "evaluate", folder, "--only", "classification", "--sizes", "standard", "--no-rivals")
        ]
