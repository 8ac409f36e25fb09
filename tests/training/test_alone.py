"""One run, one process: trainings and resumes that are started at once on one folder."""

import json
import logging
import shutil

import pytest

from duet import DuetError
from duet.lock import Holder, locked
from duet.training import resume, train
from duet.training.process import LOCK
from tests import warm

from .conftest import FLAGS
from .test_run import Killed, contents, cut_at

SHORT = [*FLAGS, "--epochs", "2", "--action-pairs", "0"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing has disturbed."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    done = warm.duet("train", *SHORT, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize("begun", [False, True], ids=["trainings", "resumes"])
def test_of_two_at_once_one_is_refused_and_the_other_whole(tmp_path, command, held, whole, begun):
    run = tmp_path / "run"
    words = ["train", *SHORT, "--out", run]
    if begun:
        shutil.copytree(whole, run)
        for late in ("checkpoints", "model"):  # as if it had been killed before its first checkpoint
            shutil.rmtree(run / late)
        words = ["train", "--resume", run]
    first = held("duet.training.run.open_data", *words)
    refused = f"duet: {run} is in use by process {first.pid}; wait for it, stop it, or take another folder\n"
    assert command(*words) == (2, "", refused)
    first.let_go()
    done = first.wait()
    assert done.returncode == 0, done.stderr
    assert contents(run) == contents(whole)
    assert not list(run.rglob(".*"))


@pytest.mark.parametrize("more", [[], ["--epochs", "3"]], ids=["to its end", "past its end"])
def test_a_resume_that_begins_as_another_ends_finds_the_run_finished(tmp_path, command, held, whole, more):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    if not more:
        shutil.rmtree(run / "model")
    words = ["train", "--resume", run, *more]
    second = held("duet.training.run.alone_in", *words)
    first = command(*words)
    assert first.returncode == 0, first.stderr
    before = {path: path.stat() for path in run.rglob("*")}
    second.let_go()
    told = f"{run} is finished: its model is in {run / 'model'}; --epochs adds to it\n"
    assert second.wait() == (0, told, "")
    after = {path: path.stat() for path in run.rglob("*")}
    assert {path: (file.st_ino, file.st_mtime_ns) for path, file in after.items()} == {
        path: (file.st_ino, file.st_mtime_ns) for path, file in before.items()
    }


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
    assert f"taking over the lock of {run}: process {2**22 + 1}, which held it, has ended" in caplog.messages
    assert not (run / LOCK).exists()
    assert contents(run) == contents(whole)


def test_a_process_killed_before_it_began_leaves_no_run(tmp_path, tiny, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    (run / LOCK).write_text(json.dumps({**vars(Holder.here()), "pid": 2**22 + 1}))
    with pytest.raises(DuetError, match="no-such-set"):
        train(tiny(data="no-such-set"), run, quiet=True)
    assert not run.exists()


@pytest.mark.parametrize("call", [train, resume])
def test_other_processes_of_a_run_ask_for_no_lock(tmp_path, tiny, monkeypatch, call):
    run = tmp_path / "run"
    cut_at(monkeypatch, 1, lambda: train(tiny(), run, quiet=True))
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("DUET_RUN", str(run))

    def reached(*_):
        raise Killed

    monkeypatch.setattr("duet.training.run.open_data", reached)
    with locked(run / LOCK), pytest.raises(Killed):
        call(*([tiny(), run] if call is train else [run]), quiet=True)
