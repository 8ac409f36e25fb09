"""Checkpoints with missing or absurd entries: one line, exit code 2, and the run's files stay as they were."""

import copy
import shutil

import pytest
import torch

from duet import Experiment
from duet.cli import main
from duet.methods import Duet
from duet.model.checkpoint import read_checkpoint, write_checkpoint
from duet.training import train

LAST = "checkpoints/last.safetensors"
SMALL = {"epochs": 2, "subset": 64, "batch_size": 32, "projector": [16, 16], "encoder": "tiny", "calibrate": False}


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """A run of four steps that was stopped after its second, and its state."""
    run, count, real = tmp_path_factory.mktemp("cut") / "run", [0], Duet.draw_views

    def draw_views(self, *arguments):
        count[0] += 1
        if count[0] == 4:
            raise Killed
        return real(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Duet, "draw_views", draw_views)
        with pytest.raises(Killed):
            train(Experiment.preset("demo", **SMALL, action_pairs=0), run, quiet=True, checkpoint_every=2)
    return run, read_checkpoint(run / LAST)


def without(*place):
    """Remove an entry."""

    def change(state):
        for key in place[:-1]:
            state = state[key]
        del state[place[-1]]

    return change


def put(value, *place):
    """Replace an entry, or add one."""

    def change(state):
        for key in place[:-1]:
            state = state[key]
        state[place[-1]] = value

    return change


def poison(value, *place):
    """Replace one number of a tensor."""

    def change(state):
        for key in place:
            state = state[key]
        state.view(-1)[0] = value

    return change


WEIGHT, LOOP = "method.backbone.norm.weight", ("loops", "fit_loop")
MEMORY, GROUP = ("optimizer_states", 0, "state"), ("optimizer_states", 0, "param_groups", 0)
PROGRESS = (*LOOP, "epoch_loop.batch_progress")
KINDS = {
    "no batches": without("batches"),
    "negative batches": put(-5, "batches"),
    "10^9 batches": put(10**9, "batches"),
    "10^4000 batches": put(10**4000, "batches"),
    "half a batch": put(1.5, "batches"),
    "batches as text": put("2", "batches"),
    "batches true": put(True, "batches"),
    "batches that are a tensor": put(torch.tensor(2), "batches"),
    "batches beside the loops": put(3, "batches"),
    "no version": without("pytorch-lightning_version"),
    "an old version": put("0.1", "pytorch-lightning_version"),
    "an odd version": put("x", "pytorch-lightning_version"),
    "a version of numbers": put([1], "pytorch-lightning_version"),
    "no weights": without("state_dict"),
    "weights as a list": put([], "state_dict"),
    "one weight less": without("state_dict", WEIGHT),
    "one weight more": put(torch.zeros(2), "state_dict", "own"),
    "a weight of another shape": put(torch.zeros(3), "state_dict", WEIGHT),
    "a weight that is a number": put(3, "state_dict", WEIGHT),
    "a weight of whole numbers": put(torch.ones(128, dtype=torch.int64), "state_dict", WEIGHT),
    "a weight with NaN": poison(float("nan"), "state_dict", WEIGHT),
    "no loops": without("loops"),
    "loops as text": put("x", "loops"),
    "no fit loop": without(*LOOP),
    "no progress": without(*PROGRESS),
    "a negative count": put(-1, *PROGRESS, "total", "ready"),
    "a count of 10^18": put(10**18, *LOOP, "epoch_progress", "current", "completed"),
    "an odd count": put(1, *PROGRESS, "current", "reset"),
    "loaders of another kind": put([{}, {}], *LOOP, "state_dict", "combined_loader"),
    "a negative step": put(-1, "global_step"),
    "an epoch of 10^9": put(10**9, "epoch"),
    "callbacks as a list": put([1], "callbacks"),
    "no optimizer": without("optimizer_states"),
    "two optimizers": lambda state: state["optimizer_states"].append({}),
    "an empty optimizer": put([{}], "optimizer_states"),
    "a parameter beyond the last": put({}, *MEMORY, 10**6),
    "a parameter by name": put({}, *MEMORY, "x"),
    "no second moment": without(*MEMORY, 0, "exp_avg_sq"),
    "a moment of another shape": put(torch.zeros(1), *MEMORY, 0, "exp_avg"),
    "a moment with infinity": poison(float("inf"), *MEMORY, 0, "exp_avg"),
    "a second moment below 0": poison(-1.0, *MEMORY, 0, "exp_avg_sq"),
    "a step of NaN": put(torch.tensor(float("nan")), *MEMORY, 0, "step"),
    "other parameters": put([0, 0], *GROUP, "params"),
    "another direction": put(True, *GROUP, "maximize"),
    "betas beyond 1": put([2.0, 2.0], *GROUP, "betas"),
    "a rate of NaN": put(float("nan"), *GROUP, "lr"),
    "an odd fused": put("x", *GROUP, "fused"),
    "no schedule": without("lr_schedulers"),
    "an empty schedule": put([{}], "lr_schedulers"),
    "a schedule that is no schedule": put([3], "lr_schedulers"),
    "a schedule from before the beginning": put(-7, "lr_schedulers", 0, "last_epoch"),
    "a schedule with a step of its own": put(5, "lr_schedulers", 0, "step"),
    "another highest rate": put([1e9], "lr_schedulers", 0, "base_lrs"),
    "images of nobody": put("x", "images"),
    "images without classes": put([64], "images"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_refused_in_one_line(cut, tmp_path, capsys, monkeypatch, kind):
    run, state = cut
    changed = copy.deepcopy(state)
    KINDS[kind](changed)
    refused(changed, run, tmp_path, capsys, monkeypatch)


def test_so_is_what_has_no_entries(cut, tmp_path, capsys, monkeypatch):
    for state in ([], {}, "x", 3):
        refused(state, cut[0], tmp_path, capsys, monkeypatch)


def test_as_it_was_it_goes_on(cut, tmp_path, capsys):
    run, state = cut
    copied = shutil.copytree(run, tmp_path / "run")
    write_checkpoint(state, copied / LAST)
    assert main(["train", "--resume", str(copied)]) == 0


def refused(state, run, tmp_path, capsys, monkeypatch):
    copied = tmp_path / "run"
    shutil.copytree(run, copied, dirs_exist_ok=True)
    write_checkpoint(state, copied / LAST)
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    monkeypatch.setattr(Duet, "draw_views", lambda *_: pytest.fail("it went on"))
    capsys.readouterr()
    assert main(["train", "--resume", str(copied)]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("duet:")]
    assert len(told) == 1
    assert len(told[0]) < 500
    assert "Traceback" not in told[0]
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before
