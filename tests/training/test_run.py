"""The trainer: what a run leaves, that it repeats, and that it can be stopped anywhere."""

import csv
import dataclasses
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

import duet
from duet.methods import Duet
from duet.training import Diverged, learning_rate, pretrain, resume, step_seed

from .conftest import FLAGS

FILES = ("model/model.safetensors", "model/config.json", "metrics.csv", "config.yaml", "checkpoints/last.safetensors")


def contents(run):
    return {name: (Path(run) / name).read_bytes() for name in FILES}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("method", ["duet", "simclr", "essl"])
def test_a_run_leaves_its_files_and_loads(tmp_path, tiny, method):
    run = train(tiny(method=method, epochs=1), tmp_path / "run", quiet=True)
    assert all((run / name).exists() for name in FILES)
    assert not list(run.rglob("*.partial"))
    encoder = duet.load(run)
    rep = encoder.embed(torch.rand(3, 1, 28, 28))
    assert rep.flat.shape == (3, 128)
    assert rep.shift("rot360", by=0.1, action="fitted").flat.shape == (3, 128)
    assert encoder.head.linear.out_features == 10
    if method == "duet":
        assert rep.content.shape == (3, 16)
        assert torch.allclose(rep.act(to=0.3).recover().g, torch.full((3,), 0.3), atol=1e-3)
    else:
        with pytest.raises(ValueError, match="no axis"):
            rep.marginal("rot360")
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    assert {"step", "epoch", "lr", "loss", "content", "head_accuracy"} <= set(rows[0])
    assert rows[-1]["step"] == "5"


def test_the_same_experiment_gives_the_same_files(tmp_path, tiny):
    first, second = (train(tiny(), tmp_path / name, quiet=True) for name in ("a", "b"))
    assert contents(first) == contents(second)
    other = train(tiny(seed=1), tmp_path / "c", quiet=True)
    assert contents(first)["model/model.safetensors"] != contents(other)["model/model.safetensors"]


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    ("every", "at", "changes"),
    [
        *((1, 7, {}), (4, 6, {}), (4, 8, {}), (None, 3, {})),
        *((3, 6, {"accumulate": 2}), (1, 8, {"accumulate": 4}), (4, 6, {"precision": "64"})),
    ],
)
def test_a_run_cut_short_ends_with_the_same_files(tmp_path, tiny, monkeypatch, every, at, changes):
    """Cut between two steps, in this process: batches, optimiser, schedule and metrics all go on."""
    whole = train(tiny(**changes), tmp_path / "whole", quiet=True, checkpoint_every=every)
    real, count = Duet.draw_views, [0]

    def draw_views(self, *arguments):
        count[0] += 1
        if count[0] == at:
            raise Killed
        return real(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Duet, "draw_views", draw_views)
        with pytest.raises(Killed):
            train(tiny(**changes), tmp_path / "cut", quiet=True, checkpoint_every=every)
    assert (tmp_path / "cut" / "checkpoints" / "last.safetensors").exists() == (every is not None and at > every)
    assert resume(tmp_path / "cut", quiet=True, checkpoint_every=every)
    assert contents(tmp_path / "cut") == contents(whole)
    assert resume(tmp_path / "cut", quiet=True) is False


def test_a_run_is_not_resumed_on_other_images_or_as_another_model(tmp_path, tiny, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("duet.training.run.save", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            train(tiny(epochs=1), tmp_path / "run", quiet=True)
    config = (tmp_path / "run" / "config.yaml").read_text()
    for old, new, line in (
        ("subset: 160", "subset: 192", "began with 160 images of 10 classes, and now there are 192 of 10"),
        ("encoder: small", "encoder: tiny", "another model; was config.yaml changed"),
    ):
        assert old in config
        (tmp_path / "run" / "config.yaml").write_text(config.replace(old, new))
        with pytest.raises(ValueError, match=line):
            resume(tmp_path / "run", quiet=True)


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same_files(tmp_path, command, started):
    """SIGKILL, three times in one run, at random moments; then it is resumed to the end."""
    flags = [*FLAGS, "--epochs", "12", "--checkpoint-every", "3"]
    assert command("train", *flags, "--out", tmp_path / "whole").returncode == 0
    chance = random.Random(0)
    run = tmp_path / "cut"
    arguments = ["train", *flags, "--out", run]
    for _ in range(3):
        process = started(*arguments)
        deadline = time.monotonic() + 120
        while not (run / "checkpoints").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.5))
        process.kill()
        process.communicate()
        arguments = ["train", "--resume", run, "--checkpoint-every", "3"]
    finished = command(*arguments)
    assert finished.returncode == 0, finished.stderr
    assert contents(run) == contents(tmp_path / "whole")
    again = command("train", "--resume", run)
    assert (again.returncode, "is finished" in again.stdout) == (0, True)


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, command, started):
    run = tmp_path / "run"
    flags = [*FLAGS, "--epochs", "400", "--checkpoint-every", "1000"]
    process = started("train", *flags, "--out", run)
    deadline = time.monotonic() + 120
    while not (run / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert f"duet train --resume {run}" in errors
    assert "Traceback" not in errors
    assert (run / "checkpoints" / "last.safetensors").exists()


def test_a_nan_stops_the_run_and_names_the_term(tmp_path, tiny, monkeypatch):
    real = Duet.terms

    def terms(self, *arguments):
        values = real(self, *arguments)
        self.count = getattr(self, "count", 0) + 1
        return values if self.count < 7 else {**values, "group": values["group"] * float("nan")}

    monkeypatch.setattr(Duet, "terms", terms)
    with pytest.raises(Diverged, match="the group term became nan at step 7; the last good checkpoint is"):
        train(tiny(), tmp_path / "run", quiet=True, checkpoint_every=5)
    from duet.model.checkpoint import read_checkpoint

    assert read_checkpoint(tmp_path / "run" / "checkpoints" / "last.safetensors")["batches"] == 5


def test_the_head_does_not_touch_the_encoder(tmp_path, tiny):
    """Wrong labels change the head and nothing else."""
    from duet.data import open_images

    images = open_images("digits", channels=1, subset=160)
    runs = {}
    for name in ("right", "wrong"):
        if name == "wrong":
            images.labels.copy_(images.labels.flip(0))
        run = train(tiny(epochs=1), tmp_path / name, images=images, quiet=True)
        runs[name] = duet.load(run)
    right, wrong = (encoder.backbone.state_dict() for encoder in runs.values())
    assert all(torch.equal(right[key], wrong[key]) for key in right)
    assert not torch.equal(runs["right"].head.linear.weight, runs["wrong"].head.linear.weight)


def test_training_learns(tmp_path, tiny):
    run = train(tiny(epochs=12, subset=320), tmp_path / "run", quiet=True)
    rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader((run / "metrics.csv").open())]
    assert rows[-1]["loss"] < 0.8 * rows[0]["loss"]


@pytest.mark.parametrize(
    "changes",
    [
        {"accumulate": 2},
        {"precision": "bf16"},
        {"optimizer": "adamw", "normalize": False},
        {"reference": "relative"},
        {"group": ["rot360", "scale"], "layout": "joint", "bins": 4},
        {"group": ["rot4", "hflip"]},
        {"corners": "circle"},
        {"storage": "stream"},
        {"action_pairs": 0},
    ],
    ids=str,
)
def test_options_run(tmp_path, tiny, changes):
    run = train(tiny(epochs=1, subset=96, **changes), tmp_path / "run", quiet=True)
    encoder = duet.load(run)
    assert encoder.embed(torch.rand(2, 1, 28, 28)).flat.shape == (2, 128)
    assert set(encoder.actions) == (set(encoder.groups) if changes.get("action_pairs") != 0 else set())


def test_colour_images_in_the_full_stack(tmp_path, tiny):
    experiment = tiny(epochs=1, subset=64, channels=3, stack="full", group="hue")
    run = train(experiment, tmp_path / "run", quiet=True)
    assert duet.load(run).channels == 3


def test_unlabelled_images_have_no_head(tmp_path, tiny):
    from duet.data import open_images

    folder = tmp_path / "photos"
    folder.mkdir()
    for i, image in enumerate(open_images("digits", channels=1, subset=80).tensors()[0]):
        Image.fromarray(image[0].numpy()).save(folder / f"{i}.png")
    for i in range(10):
        (folder / f"broken{i}.png").write_bytes(b"not an image")
    run = train(tiny(epochs=1, data=str(folder), subset=None), tmp_path / "run", quiet=True)
    assert duet.load(run).head is None
    assert "broken" in (run / "skipped.txt").read_text()
    streamed = tiny(epochs=1, data=str(folder), subset=None, storage="stream", normalize=False)
    run = train(streamed, tmp_path / "streamed", quiet=True)
    assert set(duet.load(run).actions) == {"rot360"}
    assert "broken" in (run / "skipped.txt").read_text()


def test_a_batch_larger_than_the_data_is_refused(tmp_path, tiny):
    with pytest.raises(ValueError, match="batch"):
        train(tiny(batch_size=512), tmp_path / "run", quiet=True)


def test_the_learning_rate_warms_up_and_falls_as_a_cosine():
    rates = [learning_rate(step, 10, 110) for step in range(111)]
    assert rates[0] == pytest.approx(1 / 11)
    assert rates[9] < rates[10] == 1
    assert rates[60] == pytest.approx(0.5)
    assert rates[110] == pytest.approx(0, abs=1e-9)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert learning_rate(0, 0, 10) == 1


def test_seeds_of_steps_are_all_different():
    seeds = {step_seed(s, t, r) for s in range(5) for t in range(200) for r in range(4)}
    assert len(seeds) == 5 * 200 * 4
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_resume_needs_a_run(tmp_path):
    with pytest.raises(ValueError, match="not a run"):
        resume(tmp_path)


def test_a_frozen_experiment_describes_the_run(tmp_path, tiny):
    experiment = tiny(epochs=1)
    run = train(experiment, tmp_path / "run", quiet=True)
    assert duet.load(run).experiment == experiment
    assert str(tmp_path) not in (run / "config.yaml").read_text() + (run / "model" / "config.json").read_text()
    assert dataclasses.is_dataclass(experiment)


def test_metrics_go_to_tensorboard_too(tmp_path, tiny):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(tiny(epochs=1, action_pairs=0), tmp_path / "run", quiet=True, track="tensorboard")
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    assert [event.step for event in events.Scalars("loss")] == [int(row["step"]) for row in rows]
    assert events.Scalars("group")[-1].value == pytest.approx(float(rows[-1]["group"]), rel=1e-5)


def test_a_tracker_that_is_not_there_is_one_line(tmp_path, tiny):
    try:
        import wandb  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ValueError, match=r"duet-ssl\[track\]"):
            train(tiny(epochs=1), tmp_path / "run", quiet=True, track="wandb")
    with pytest.raises(ValueError, match="tensorboard or wandb"):
        train(tiny(epochs=1), tmp_path / "run", quiet=True, track="mlflow")
