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
from duet.training.checkpoint import SCALER

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


WEIGHT = "method.backbone.norm.weight"
MEMORY, GROUP = ("optimizer", "state"), ("optimizer", "param_groups", 0)
KINDS = {
    "no batches": without("batches"),
    "negative batches": put(-5, "batches"),
    "10^9 batches": put(10**9, "batches"),
    "10^4000 batches": put(10**4000, "batches"),
    "half a batch": put(1.5, "batches"),
    "batches as text": put("2", "batches"),
    "batches true": put(True, "batches"),
    "batches that are a tensor": put(torch.tensor(2), "batches"),
    "no format": without("format"),
    "another format": put(3, "format"),
    "a format as text": put("2", "format"),
    "a format true": put(True, "format"),
    "Lightning's version, and not its entries": put("2.5.0", "pytorch-lightning_version"),
    "Lightning's entries as text": lambda state: state.update(
        {"pytorch-lightning_version": [1], "optimizer_states": "x"}
    ),
    "no weights": without("weights"),
    "weights as a list": put([], "weights"),
    "one weight less": without("weights", WEIGHT),
    "one weight more": put(torch.zeros(2), "weights", "own"),
    "a weight of another shape": put(torch.zeros(3), "weights", WEIGHT),
    "a weight that is a number": put(3, "weights", WEIGHT),
    "a weight of whole numbers": put(torch.ones(128, dtype=torch.int64), "weights", WEIGHT),
    "a weight with NaN": poison(float("nan"), "weights", WEIGHT),
    "no optimizer": without("optimizer"),
    "two optimizers": put([{}, {}], "optimizer"),
    "an empty optimizer": put({}, "optimizer"),
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
    "a scaler as text": put("x", "scaler"),
    "a scaler of its own": put({"scale": 1.0}, "scaler"),
    "a scaler with NaN": put(dict.fromkeys(SCALER, float("nan")), "scaler"),
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


def test_one_in_the_form_of_lightning_goes_on_to_the_same_bytes(cut, tmp_path):
    """As versions before 0.2 wrote them."""
    run, state = cut
    entries = {"state_dict": state["weights"], "optimizer_states": [state["optimizer"]], "batches": state["batches"]}
    before = {"pytorch-lightning_version": "2.6.0", "images": state["images"], "loops": {}, "lr_schedulers": [{}]}
    for name, found in (("now", state), ("before", {**entries, **before})):
        write_checkpoint(found, shutil.copytree(run, tmp_path / name) / LAST)
        assert main(["train", "--resume", str(tmp_path / name)]) == 0
    model = "model/model.safetensors"
    assert (tmp_path / "now" / model).read_bytes() == (tmp_path / "before" / model).read_bytes()


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
