"""The number of threads belongs to a run: it is kept, used again, and where it cannot be had that is said."""

import json
import logging
import os

import pytest
import torch

from duet.training import resume, train
from duet.training.machine import FILE, as_begun, begun_on, this_machine

from .test_run import contents, cut_at


@pytest.fixture
def threads():
    """Sets how many threads torch has; afterwards it has as many as before."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def begun(tmp_path):
    """A run's folder that says on what it was begun."""

    def write(**changes):
        (tmp_path / FILE).write_text(json.dumps({**this_machine(), **changes}))
        return tmp_path

    return write


def test_a_run_resumed_with_other_threads_ends_with_the_same_bytes(tmp_path, tiny, threads, monkeypatch, caplog):
    values = {"quiet": True, "checkpoint_every": 3}
    whole, run = tmp_path / "whole", tmp_path / "run"
    threads(1)
    train(tiny(), whole, **values)
    cut_at(monkeypatch, 5, lambda: train(tiny(), run, **values))
    assert json.loads((run / FILE).read_text())["threads"] == 1
    threads(2)
    with caplog.at_level(logging.INFO):
        assert resume(run, **values)
    assert f"threads: 1, as when {run} was begun, and not 2" in caplog.messages
    assert torch.get_num_threads() == 2
    assert contents(run) == contents(whole)


def test_the_number_is_no_setting_of_the_experiment(tmp_path, tiny):
    assert "threads" not in tiny().to_dict()
    run = train(tiny(epochs=1, subset=32, action_pairs=0), tmp_path / "run", quiet=True)
    assert "threads" not in (run / "config.yaml").read_text()
    assert json.loads((run / FILE).read_text()) == {**this_machine(), "precision": "32"}


def test_a_run_of_before_goes_on(tmp_path, tiny, monkeypatch, caplog):
    cut_at(monkeypatch, 5, lambda: train(tiny(), tmp_path / "run", quiet=True, checkpoint_every=3))
    (tmp_path / "run" / FILE).unlink()
    assert resume(tmp_path / "run", quiet=True)
    assert "threads" not in caplog.text
    assert json.loads((tmp_path / "run" / FILE).read_text()) == {**this_machine(), "precision": "32"}


def test_threads_are_as_before_outside_and_lightning_hears_of_them(begun, threads, monkeypatch):
    monkeypatch.setattr("duet.training.machine.available_cores", lambda: 8)
    threads(1)
    run = begun(threads=2)
    for outside in (None, "1"):
        monkeypatch.delenv("OMP_NUM_THREADS") if outside is None and "OMP_NUM_THREADS" in os.environ else None
        if outside is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", outside)
        with as_begun(run):
            assert (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]) == (2, "2")
        assert (torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")) == (1, outside)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 64}, "was begun with threads 64, here 1: its bytes may be others than there"),
        ({"torch": "1.0"}, f"was begun with torch 1.0, here {torch.__version__}: its bytes may be others"),
        ({"processor": "z80"}, "was begun with processor z80, here"),
        ({"threads": 10**30}, "here 1: its bytes may be others"),
        ({"threads": -1}, "cannot be read: with how many threads the run was begun is not known"),
        ({"threads": True}, "cannot be read"),
        ({"threads": "2"}, "cannot be read"),
        ({}, None),
    ],
    ids=str,
)
def test_what_cannot_be_had_is_said_and_the_run_goes_on(begun, threads, monkeypatch, caplog, changes, message):
    monkeypatch.setattr("duet.training.machine.available_cores", lambda: 2)
    threads(1)
    with as_begun(begun(**changes)):
        assert torch.get_num_threads() == 1
    assert [message in line for line in caplog.messages] == ([] if message is None else [True])


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 9000, "null"])
def test_what_is_damaged_is_said_and_the_run_goes_on(tmp_path, caplog, text):
    (tmp_path / FILE).write_text(text)
    with as_begun(tmp_path):
        assert "cannot be read" in caplog.text


def test_what_else_a_run_notes_of_its_machine_is_kept_in_bounds(begun, caplog):
    odd = {"precision": "bf16", "gpus": 2, "long": "x" * 500, "nested": {"a": [1] * 500}, "k" * 50: 1, "huge": 10**30}
    many = {f"key{i}": 1.5 for i in range(50)}
    run = begun(**odd, **many)
    found = begun_on(run)
    assert {key: found[key] for key in ("precision", "gpus", "key0")} == {"precision": "bf16", "gpus": 2, "key0": 1.5}
    assert {key: found[key] for key in this_machine()} == this_machine()
    assert len(found) == 3 + 20
    assert all(len(str(value)) <= 40 and not isinstance(value, dict | list) for value in found.values())
    assert "k" * 50 not in found
    with as_begun(run):  # what is not known of this machine is not compared with it
        assert not caplog.messages
