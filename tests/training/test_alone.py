"""One run, one process: trainings and resumes that are started at once on one folder."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from duet import DuetError
from duet.lock import Holder, locked
from duet.training import resume, train
from duet.training.process import LOCK

from .conftest import environment
from .test_run import Killed, contents, cut_at


def test_of_two_that_start_at_once_one_is_refused_and_the_other_whole(tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "faults" / "two_at_once.py"
    line = [sys.executable, script, "--pairs", "2", "--out", tmp_path / "found.json"]
    subprocess.run(line, check=True, env=environment(), timeout=300)
    assert json.loads((tmp_path / "found.json").read_text()) == {"pairs": 2, "one": 2, "both": 0, "none": 0, "mixed": 0}


def test_a_folder_in_use_is_refused_before_the_images_are_opened(tmp_path, tiny, monkeypatch):
    cut_at(monkeypatch, 7, lambda: train(tiny(), tmp_path / "run", quiet=True, checkpoint_every=3))
    opened = []
    monkeypatch.setattr("duet.training.run.open_data", opened.append)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with locked(tmp_path / "run" / LOCK):
        for again in (lambda run: train(tiny(), run, quiet=True), resume, lambda run: resume(run, epochs=5)):
            with pytest.raises(DuetError, match="run is in use by process"):
                again(tmp_path / "run")
    assert opened == []
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_a_run_of_a_killed_process_goes_on_with_a_word(tmp_path, tiny, monkeypatch, caplog):
    whole = train(tiny(), tmp_path / "whole", quiet=True, checkpoint_every=3)
    run = tmp_path / "run"
    cut_at(monkeypatch, 7, lambda: train(tiny(), run, quiet=True, checkpoint_every=3))
    (run / LOCK).write_text(json.dumps({**vars(Holder.here()), "pid": 2**22 + 1}))
    with caplog.at_level(logging.WARNING):
        assert resume(run, quiet=True, checkpoint_every=3)
    assert f"process {2**22 + 1}, which had {run}, is gone: its lock is taken over" in caplog.messages
    assert not (run / LOCK).exists()
    assert contents(run) == contents(whole)


def test_a_process_killed_before_it_began_leaves_no_run(tmp_path, tiny, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    (run / LOCK).write_text(json.dumps({**vars(Holder.here()), "pid": 2**22 + 1}))
    with pytest.raises(DuetError, match="no-such-set"):
        train(tiny(data="no-such-set"), run, quiet=True)
    assert not run.exists()


def test_other_processes_of_a_run_ask_for_no_lock(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("DUET_RUN", str(tmp_path / "run"))

    def reached(*_):
        raise Killed

    monkeypatch.setattr("duet.training.run.open_data", reached)
    with locked(tmp_path / "run" / LOCK), pytest.raises(Killed):
        train(tiny(), tmp_path / "run", quiet=True)
