"""The trainer: what a run leaves, that it repeats, and that it can be stopped anywhere."""

import contextlib
import csv
import dataclasses
import gc
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from lightning.fabric import Fabric
from PIL import Image

import duet
from duet.domain import Circle
from duet.error import DuetError
from duet.groups import Group, Stack
from duet.methods import METHODS, Duet, Method
from duet.model import Encoder
from duet.networks import Projector, wrap
from duet.representation import Axis, Flat, Table, VonMises
from duet.training import Diverged, Pretraining, learning_rate, resume, step_seed, train
from duet.training.experiment import data_of
from duet.training.loop import Loop, Stopped

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
    assert not list(run.rglob("*partial*"))
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
        (4, 6, {"optimizer": "sgd", "views": 3, "contrast": "sigreg"}),
        (2, 4, {"accumulate": 2, "exact": True}),
        # The second half has other views: it must be known how much of the training is done.
        (2, 5, {"group": ("rot4",), "options": {"views": "separate", "full": 1.0, "full_from": 0.5}}),
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
        patched.setattr(duet.Encoder, "save", lambda *_: (_ for _ in ()).throw(Killed))
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
    flags = [*FLAGS, "--epochs", "8", "--checkpoint-every", "3"]
    assert command("train", *flags, "--out", tmp_path / "whole").returncode == 0
    chance = random.Random(0)
    run = tmp_path / "cut"
    arguments = ["train", *flags, "--out", run]
    for _ in range(3):
        process = started(*arguments)
        while not (run / "checkpoints").exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.5))
        process.kill()
        process.wait()
        arguments = ["train", "--resume", run, "--checkpoint-every", "3"]
    finished = command(*arguments)
    assert finished.returncode == 0, finished.stderr
    assert contents(run) == contents(tmp_path / "whole")
    again = command("train", "--resume", run)
    assert (again.returncode, "is finished" in again.stdout) == (0, True)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, held):
    run = tmp_path / "run"
    process = held("duet.methods.Duet.draw_views", "train", *FLAGS, "--out", run)
    process.step()
    process.step()
    process.send_signal(signal.SIGINT)  # within the third step
    process.let_go()
    code, _, errors = process.wait()
    assert code == 130, errors
    assert f"stopped at step 3 of 15; go on with: duet train --resume {run}" in errors
    assert "Traceback" not in errors
    assert (run / "checkpoints" / "last.safetensors").exists()


def test_a_stop_after_the_last_step_is_not_lost(tmp_path, tiny, monkeypatch):
    """Nobody looks once the steps are done: the stop counts before the long end of a run, and the run goes on later."""

    def late(self, done, observe=Loop._observe):
        observe(self, done)
        if done == len(self.batches):
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_observe", late)
        with pytest.raises(Stopped, match="after the last step; finish with: duet train --resume"):
            train(tiny(), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "model").exists()
    assert resume(tmp_path / "run", quiet=True)
    train(tiny(), tmp_path / "unbroken", quiet=True)
    assert duet.load(tmp_path / "run").digest == duet.load(tmp_path / "unbroken").digest


@pytest.mark.parametrize("broken", [False, True])
def test_nothing_of_a_training_stays_in_the_process(tmp_path, tiny, monkeypatch, broken):
    """A SIGTERM ends the program again as it did before, and trainer, network and moments are let go."""

    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def broken_step(self, done):
        raise DuetError("enough")

    def held():
        gc.collect()
        return sum(type(one) in (Fabric, Loop, Pretraining) for one in gc.get_objects())

    before, there = handlers(), held()
    if broken:
        monkeypatch.setattr(Loop, "_observe", broken_step)
    with pytest.raises(DuetError, match="enough") if broken else contextlib.nullcontext():
        train(tiny(), tmp_path / "run", quiet=True)
    assert handlers() == before
    assert broken or held() == there  # an error still holds the frames that it came through


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
        {"accumulate": 3, "exact": True, "precision": "bf16"},
        {"precision": "bf16"},
        {"options": {"views": "separate", "full": 0.5}, "group": "rot4"},
        {"optimizer": "adamw", "normalize": False},
        {"optimizer": "sgd", "decay_norms": False, "views": 3, "contrast": "vicreg", "view_size": ["14@0.5", "28"]},
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


def coloured(count=64):
    """Digits in colours of their own."""
    from duet.data import MemoryImages, open_images

    grey, labels = open_images("digits", channels=3, subset=count).tensors()
    tint = torch.rand(count, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    return MemoryImages("coloured digits", "train", (grey * tint).to(torch.uint8), labels)


def test_colour_images_in_the_full_stack(tmp_path, tiny):
    experiment = tiny(epochs=1, subset=64, channels=3, stack="full", group="hue")
    run = train(experiment, tmp_path / "run", images=coloured(), quiet=True)
    assert duet.load(run).channels == 3


@pytest.mark.parametrize("group", ["hue", "saturation", "grayscale"])
def test_a_group_that_changes_nothing_is_refused(tmp_path, tiny, group):
    """Grey images in three channels have no hue to turn."""
    with pytest.raises(ValueError, match=f"{group} changes nothing in the images of digits: they are grey"):
        train(tiny(epochs=1, channels=3, group=group), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    train(tiny(epochs=1, subset=64, channels=3, group=group), tmp_path / "run", images=coloured(), quiet=True)


def test_a_group_of_ones_own_that_does_nothing_is_refused_too(tmp_path, tiny):
    class Still(Group):
        name = "still"

        def transform(self, images, g, generator=None):
            return images.clone()

    with pytest.raises(ValueError, match="still changes nothing in the images of digits; take another"):
        train(tiny(), tmp_path / "run", stack=Stack.rrc_plus(Still()), quiet=True)


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


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"dim": 130}, {}, "130"),
        ({"batch_size": 512}, {}, "batch"),
        ({}, {"track": "mlflow"}, "tensorboard or wandb"),
        ({}, {"device": "tpu"}, "tpu"),
        ({}, {"checkpoint_every": 0}, "starts at 1"),
        ({"data": "no-such-set"}, {}, "no-such-set"),
        ({"encoder": "smal"}, {}, "nearest: small"),
        ({"stack": "full"}, {}, "need colour"),
        ({"devices": 2, "sync_batchnorm": True}, {"device": "cpu"}, "--no-sync-batchnorm"),
        ({"lr": 1e30}, {"checkpoint_every": 1}, "no longer numbers|became"),
    ],
    ids=str,
)
def test_a_run_that_fails_at_its_start_leaves_no_folder(tmp_path, tiny, monkeypatch, changes, options, message):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")  # a run of several devices would set it for good
    with pytest.raises(duet.DuetError, match=message):
        train(tiny(**changes), tmp_path / "run", quiet=True, **options)
    began = "lr" in changes  # one that fails later is a run
    assert (tmp_path / "run").exists() == began


@pytest.mark.parametrize("error", [duet.DuetError, TypeError])
def test_what_fails_in_the_first_step_leaves_no_folder_and_what_was_there_stays(tmp_path, tiny, monkeypatch, error):
    def fails(*_):
        raise error("in the first step")

    monkeypatch.setattr(Duet, "terms", fails)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    for name in ("run", "there"):
        with pytest.raises(error, match="in the first step"):
            train(tiny(), tmp_path / name, quiet=True)
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "there" / "notes.txt").read_text() == "mine"


def test_the_folder_is_a_text_or_a_path_or_named_by_the_experiment(tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = tiny(epochs=1, subset=32, action_pairs=0)
    assert train(small, "text", quiet=True) == Path("text")
    assert train(small, Path("path"), quiet=True) == Path("path")
    assert train(small, quiet=True) == Path("runs/duet-rot360-digits-lambda100")
    assert train(small, quiet=True) == Path("runs/duet-rot360-digits-lambda100-2")
    assert contents("text") == contents("path") == contents("runs/duet-rot360-digits-lambda100-2")
    assert resume("text", quiet=True) is False


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
    assert duet.Experiment.from_yaml(run / "config.yaml") == experiment
    provenance = duet.load(run).provenance
    assert (provenance["method"], provenance["lambda"], provenance["epochs"]) == ("duet", 100, 1)
    assert provenance["data"] == data_of(experiment)
    assert str(tmp_path) not in (run / "config.yaml").read_text() + (run / "model" / "config.json").read_text()
    assert dataclasses.is_dataclass(experiment)


def test_metrics_go_to_tensorboard_too(tmp_path, tiny):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(tiny(epochs=1, action_pairs=0), tmp_path / "run", quiet=True, track="tensorboard")
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    assert [event.step for event in events.Scalars("loss")] == [int(row["step"]) for row in rows]
    assert events.Scalars("group")[-1].value == pytest.approx(float(rows[-1]["group"]), rel=1e-5)


def test_a_tracker_that_cannot_begin_is_one_line_before_the_training(tmp_path, tiny, monkeypatch):
    class Unwilling:
        def __init__(self, **settings):
            pass

        @property
        def experiment(self):
            raise RuntimeError("No API key configured.\nUse `wandb login`")

    monkeypatch.setattr("lightning.pytorch.loggers.WandbLogger", Unwilling)
    with pytest.raises(duet.DuetError, match=r"cannot track with wandb: No API key configured\.$"):
        train(tiny(epochs=1), tmp_path / "run", quiet=True, track="wandb")


def test_no_action_is_fitted_to_more_features_than_memory_bears(tmp_path, tiny, monkeypatch, caplog):
    monkeypatch.setattr("duet.training.finish.MOST_ACTED", 127)
    run = train(tiny(epochs=1), tmp_path / "run", quiet=True)
    assert "no action is fitted: 128 features are more than 127" in caplog.text
    assert duet.load(run).actions == {}


def test_as_few_pairs_as_may_be_are_enough_for_an_action(tmp_path, tiny):
    run = train(tiny(epochs=1, action_pairs=16), tmp_path / "run", quiet=True)
    assert set(duet.load(run).actions["rot360"]) == {"fitted", "spectral"}


def test_a_tracker_that_is_not_there_is_one_line(tmp_path, tiny):
    try:
        import wandb  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ValueError, match=r"pip install '.*\[track\]'"):
            train(tiny(epochs=1), tmp_path / "run", quiet=True, track="wandb")
    with pytest.raises(ValueError, match="tensorboard or wandb"):
        train(tiny(epochs=1), tmp_path / "run", quiet=True, track="mlflow")


def test_a_tracker_says_nothing_on_the_screen(tmp_path, command):
    """Lightning would remark on folders that exist, on hyperparameters and on intervals."""
    for out in (tmp_path / "run", tmp_path / "there"):
        (tmp_path / "there").mkdir(exist_ok=True)
        done = command("train", *FLAGS, "--epochs", "1", "--action-pairs", "0", "--track", "tensorboard", "--out", out)
        assert done.returncode == 0, done.stderr
        ours = (
            "digits, train:",
            "digits: 160 train",
            "duet epoch 1/1: ",
            "the model will not tell",
            "5 step(s) in all",
        )
        assert [line for line in done.stderr.splitlines() if not line.startswith(ours)] == []
        assert list((out / "tensorboard").iterdir())


def cut_at(monkeypatch, step, call):
    """Run `call`, and kill it when it draws the views of that step, counted from its first."""
    real, count = Duet.draw_views, [0]

    def draw_views(self, *arguments):
        count[0] += 1
        if count[0] == step:
            raise Killed
        return real(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Duet, "draw_views", draw_views)
        with pytest.raises(Killed):
            call()


@pytest.mark.parametrize("changes", [{}, {"accumulate": 2}], ids=str)
def test_a_run_goes_past_its_end_with_a_schedule_of_its_own(tmp_path, tiny, monkeypatch, changes):
    first = train(tiny(epochs=2, **changes), tmp_path / "first", quiet=True, checkpoint_every=4)
    before = contents(first)
    for name in ("second", "cut", "early"):
        shutil.copytree(first, tmp_path / name)
    for run in (first, tmp_path / "second"):
        assert resume(run, epochs=4, quiet=True, checkpoint_every=4)
    longer = duet.Experiment.from_yaml(first / "config.yaml")
    assert (longer.epochs, longer.extended) == (4, (2,))
    old = {name: (first / name.replace("model/", "model-2-epochs/")).read_bytes() for name in FILES[:2]}
    assert old == {name: before[name] for name in FILES[:2]}
    after = contents(first)
    assert after["model/model.safetensors"] != before["model/model.safetensors"]
    assert after["metrics.csv"].startswith(before["metrics.csv"])
    rows = list(csv.DictReader((first / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows] == list(range(1, 21))
    # The new schedule is that of a run that was as long from the beginning.
    rates = [float(row["lr"]) for row in rows]
    steps = 20 // changes.get("accumulate", 1)
    expected = [longer.lr * learning_rate(step, steps / 4, steps) for step in range(steps + 1)]
    assert rates[-1] == pytest.approx(expected[steps], abs=1e-9)
    assert rates[14] == pytest.approx(expected[15 // changes.get("accumulate", 1)])
    assert contents(tmp_path / "second") == after
    assert duet.load(first).provenance["recipe"]["extended after epochs"] == "2"
    # Killed within the extension, before its first checkpoint and after it, and then resumed with or without epochs.
    for name, step, again in (("cut", 7, {}), ("early", 1, {"epochs": 4})):
        cut_at(monkeypatch, step, lambda n=name: resume(tmp_path / n, epochs=4, quiet=True, checkpoint_every=4))
        assert resume(tmp_path / name, **again, quiet=True, checkpoint_every=4)
        assert contents(tmp_path / name) == after
    assert resume(first, quiet=True) is False
    assert resume(first, epochs=4, quiet=True) is False
    with pytest.raises(ValueError, match="4 epochs already; --epochs can only add"):
        resume(first, epochs=3, quiet=True)
    assert contents(first) == after


def test_the_new_schedule_holds_from_the_first_step_of_an_extension(tmp_path, tiny, monkeypatch):
    run = train(tiny(epochs=2), tmp_path / "run", quiet=True)
    real, used = torch.optim.Adam.step, []

    def step(self, *arguments, **options):
        used.append(self.param_groups[0]["lr"])
        return real(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    assert resume(run, epochs=3, quiet=True)
    longer = duet.Experiment.from_yaml(run / "config.yaml")
    assert used == [longer.lr * learning_rate(step, 5, 15) for step in range(10, 15)]


def test_killed_while_its_model_makes_room_it_is_not_taken_for_finished(tmp_path, tiny, monkeypatch):
    run = train(tiny(epochs=1), tmp_path / "run", quiet=True)
    shutil.copytree(run, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr("duet.training.run.write_text", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            resume(run, epochs=2, quiet=True)
    for each in (run, tmp_path / "whole"):
        assert resume(each, epochs=2, quiet=True)
    assert contents(run) == contents(tmp_path / "whole")


def test_a_stopped_run_can_be_made_longer_too(tmp_path, tiny, monkeypatch):
    cut_at(monkeypatch, 4, lambda: train(tiny(epochs=1), tmp_path / "run", quiet=True, checkpoint_every=1))
    assert resume(tmp_path / "run", epochs=2, quiet=True)
    assert not list((tmp_path / "run").glob("model-*"))
    assert duet.load(tmp_path / "run").provenance["epochs"] == 2


def plain_backbone(width=32):
    torch.manual_seed(5)
    return wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, width)), channels=1, width=width)


def test_a_backbone_of_ones_own_is_trained_saved_and_evaluated(tmp_path, tiny):
    run = train(tiny(epochs=1), tmp_path / "run", backbone=plain_backbone(), quiet=True)
    with pytest.raises(ValueError, match=r"load\(\.\.\., backbone=it\)"):
        duet.load(run)
    encoder = duet.load(run, backbone=plain_backbone())
    start = plain_backbone().body[1].weight
    assert encoder.layout.dim == 32
    assert not torch.equal(encoder.backbone.body[1].weight.cpu(), start)
    results = duet.evaluate(encoder, ["recovery"], progress=False)
    assert results["recovery"].scalars["median_error_degrees"] < 180
    with pytest.raises(ValueError, match="give it again, as backbone="):
        resume(run, epochs=2, quiet=True)
    duet.load(run, backbone=plain_backbone())  # what cannot go on stays as it is
    assert resume(run, epochs=2, quiet=True, backbone=plain_backbone())


class Pull(Method):
    """Two views are pulled together, and kept from collapsing."""

    name, title = "pull", "Pull"

    def __init__(self, backbone, layout):
        super().__init__(backbone, layout)
        self.steps = []

    def terms(self, represented, views, gather=None):
        first, second = views.split(represented.z)
        return {"near": (first - second).square().mean(), "wide": (1 - represented.z.std(0)).relu().mean()}

    def after_step(self, step):
        self.steps.append(step)


@pytest.mark.parametrize("made", ["object", "function"])
def test_a_method_of_ones_own_is_trained(tmp_path, tiny, made):
    held = []

    def build(backbone):
        held.append(Pull(backbone, Flat(backbone.dim)))
        return held[-1]

    try:
        if made == "object":
            run = train(tiny(epochs=1), tmp_path / "run", method=build(plain_backbone()), quiet=True)
            encoder = duet.load(run, backbone=plain_backbone())
        else:
            run = train(tiny(epochs=1), tmp_path / "run", method=build, quiet=True)
            encoder = duet.load(run)
        assert held[0].steps == [0, 1, 2, 3, 4]
        assert {"near", "wide"} <= set(next(csv.DictReader((run / "metrics.csv").open())))
        assert encoder.provenance["method"] == "pull"
        assert encoder.provenance["title"] == "Pull"
        assert "method: pull" in (run / "config.yaml").read_text()
        assert set(duet.evaluate(encoder, ["recovery"], progress=False)) == {"recovery"}
    finally:
        METHODS.pop("pull", None)


def test_a_method_brings_its_own_backbone(tmp_path, tiny):
    method = Pull(plain_backbone(), Flat(32))
    with pytest.raises(ValueError, match="one of the two"):
        train(tiny(), tmp_path / "run", method=method, backbone=plain_backbone(), quiet=True)
    with pytest.raises(ValueError, match="must make a Method of the backbone, not a int"):
        train(tiny(), tmp_path / "run", method=lambda backbone: 3, quiet=True)
    assert not (tmp_path / "run").exists()


class Dim(Group):
    """Darker."""

    name, unit, span, domain = "dim", "factor", (1.0, 0.2), Circle()

    def transform(self, images, g, generator=None):
        return images * self.parameter((0.5 - (g - 0.5).abs()) * 2).to(images.dtype).view(-1, 1, 1, 1)


def test_a_stack_of_ones_own_says_which_groups_are_tracked(tmp_path, tiny):
    backbone = plain_backbone()
    layout = Table(4, Axis("dim", 8, VonMises(0.2)))
    method = Duet(backbone, layout, Projector(4, (8,), 4), weight=5.0)
    stack = Stack.rrc_plus(Dim(), area=(0.8, 1.0))
    run = train(tiny(epochs=1), tmp_path / "run", method=method, stack=stack, quiet=True)
    duet.register_group(Dim())
    try:
        encoder = duet.load(run, backbone=plain_backbone())
        assert list(encoder.groups) == ["dim"]
        assert set(encoder.actions) == {"dim"}
        assert encoder.embed(torch.rand(2, 1, 28, 28)).marginal("dim").shape == (2, 8)
    finally:
        duet.GROUPS.pop("dim")


@pytest.mark.parametrize("changes", [{"seed": 7}, {"epochs": 1}, {"epochs": 5}, {"weight": 3.0, "bins": 4}], ids=str)
def test_another_run_does_not_go_on_in_a_runs_folder(tmp_path, tiny, changes):
    run = train(tiny(epochs=2), tmp_path / "run", quiet=True)
    before = contents(run)
    other = tiny(**{"epochs": 2, **changes})
    with pytest.raises(DuetError, match=f"holds a run with another .*{next(iter(changes))}"):
        train(other, run, quiet=True)
    assert contents(run) == before
    assert train(tiny(epochs=2, storage="memory"), run, quiet=True) == run  # how images are kept changes nothing


def test_an_extension_that_cannot_begin_leaves_the_run_as_it_was(tmp_path, tiny):
    run = train(tiny(epochs=1), tmp_path / "run", quiet=True)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("subset: 160", "subset: 192"))
    with pytest.raises(DuetError, match="restore them"):
        resume(run, epochs=2, quiet=True)
    assert (run / "config.yaml").read_text() == config.replace("subset: 160", "subset: 192")
    assert (run / "model" / "config.json").exists()
    assert not list(run.glob("model-*"))


def test_the_action_is_fitted_where_the_run_was_trained(tmp_path, tiny, monkeypatch):
    """Lightning brings the weights back to the CPU before the action is fitted."""
    seen = []
    real = Encoder.to

    def to(self, device, *rest):
        seen.append(device)
        return real(self, device, *rest)

    monkeypatch.setattr(Encoder, "to", to)
    train(tiny(epochs=1), tmp_path / "run", quiet=True)
    assert torch.device("cpu") in seen


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path, tiny, monkeypatch):
    cut_at(monkeypatch, 7, lambda: train(tiny(), tmp_path / "run", quiet=True, checkpoint_every=3))
    left = tmp_path / "run" / "checkpoints" / ".partial-abcd_123"
    left.mkdir()
    (left / "last.safetensors").write_bytes(b"half")
    assert resume(tmp_path / "run", quiet=True)
    assert not left.exists()


@pytest.mark.parametrize("names", [("rot360", "scale"), ("rot360", "hflip"), ("hflip", "rot360")], ids=str)
def test_the_first_group_of_a_model_is_the_one_that_was_named_first(tmp_path, tiny, names):
    run = train(tiny(epochs=1, subset=64, group=names, action_pairs=0), tmp_path / "run", quiet=True)
    assert tuple(duet.load(run).groups) == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experiment": "demo"}, "train takes an Experiment"),
        ({"backbone": torch.nn.Flatten()}, "wrap"),
        ({"images": torch.rand(100, 1, 28, 28)}, "open_images"),
        ({"stack": "rrc"}, "duet.groups.Stack"),
        ({"method": "duet"}, "function from a backbone"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_what_train_takes_is_refused_in_one_line(tmp_path, tiny, arguments, message):
    with pytest.raises(DuetError, match=message):
        train(**{"experiment": tiny(), "out": tmp_path / "run", "quiet": True, **arguments})
    assert not (tmp_path / "run").exists()


def test_terms_that_are_no_dict_of_tensors_are_named(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(Duet, "terms", lambda self, *_: torch.zeros(()))
    with pytest.raises(DuetError, match=r"Duet\.terms must return"):
        train(tiny(epochs=1), tmp_path / "run", quiet=True)
