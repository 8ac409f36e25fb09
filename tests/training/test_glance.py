"""The held-out error of the progress line: it changes nothing, and costs next to nothing."""

import csv
import io
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from duet import progress
from duet.data import open_images
from duet.groups import GROUPS
from duet.training import bar, glance, train
from duet.training.bar import in_words
from duet.training.experiment import build_method
from duet.training.glance import Glance, glance_at

FILES = ("model/model.safetensors", "model/config.json", "metrics.csv", "checkpoints/last.safetensors")


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal shows."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=220)

    def new_progress(*columns, **options):
        return progress.new_progress(*columns, **{**options, "console": console})

    monkeypatch.setattr(bar, "new_progress", new_progress)
    return shown


def test_a_run_with_glances_in_every_step_leaves_the_same_files(tmp_path, tiny, terminal, monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        monkeypatch.setattr("duet.model.calibration.MOST_VIEWS", 100)  # what comes after training is not looked at
        options = tiny(epochs=1, subset=1000, batch_size=150, encoder="tiny", action_pairs=0)
        train(options, tmp_path / "quiet", quiet=True)
        monkeypatch.setattr(glance, "PATIENCE", 0.0)
        monkeypatch.setattr(glance, "SHARE", 1e9)
        monkeypatch.setattr(bar, "EVERY", 0.0)
        looks, real = [], Glance._look
        monkeypatch.setattr(Glance, "_look", lambda self, loop: (looks.append(1), real(self, loop)))
        train(options, tmp_path / "shown")
    finally:
        torch.set_num_threads(threads)
    assert len(looks) == 6
    for name in FILES:
        assert (tmp_path / "quiet" / name).read_bytes() == (tmp_path / "shown" / name).read_bytes(), name
    assert "held-out rotation error" in terminal.getvalue()
    assert "losses content" in terminal.getvalue()
    assert "head accuracy" in terminal.getvalue()


def test_a_run_that_keeps_nothing_aside_shows_none(tmp_path, tiny, terminal, monkeypatch):
    monkeypatch.setattr(glance, "PATIENCE", 0.0)
    train(tiny(epochs=1, subset=64, encoder="tiny", action_pairs=0), tmp_path / "run")
    assert "losses content" in terminal.getvalue()
    assert "held-out" not in terminal.getvalue()


def test_names_say_which_are_losses():
    latest = {name: torch.tensor(0.5) for name in ("loss", "content", "group", "head", "head_accuracy")}
    assert in_words(latest) == "losses content 0.5, group 0.5; head accuracy 0.5"
    assert in_words({"loss": torch.tensor(1.0), "content": torch.tensor(1.0)}) == "loss content 1"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, True),
        ({"method": "simclr", "weight": None}, False),
        ({"reference": "relative"}, False),
        ({"weight": 0.0}, False),
    ],
    ids=str,
)
def test_only_a_reading_that_has_a_truth_is_shown(tiny, changes, shown):
    experiment = tiny(**{**changes, "encoder": "tiny"})
    images = open_images("digits", channels=1, subset=20)
    found = glance_at(images, experiment.groups, build_method(experiment), seed=0)
    assert (found is not None) == shown


def test_the_error_of_a_reading_is_in_the_unit_of_its_group():
    truth = torch.tensor([0.0, 0.2, 0.95])
    found = torch.tensor([0.9, 0.2, 0.0])  # off by 36, 0 and 18 degrees
    assert glance.in_words(GROUPS["rot360"], found, truth) == "held-out rotation error 18.0°"
    four = torch.tensor(GROUPS["rot4"].elements)
    assert "75% right" in glance.in_words(GROUPS["rot4"], torch.cat([four[:1], four[:1], four[2:]]), four)


class Clock:
    """Time that passes when somebody says so."""

    now = 0.0

    def monotonic(self):
        return self.now


def test_glances_take_no_more_than_their_share_of_the_time(monkeypatch):
    """A step of 0.1 s, a glance of 0.02 s and as much for drawing its views: below 1 % of any time that has passed."""
    clock, drawn = Clock(), []
    monkeypatch.setattr(glance, "time", clock)
    looking = Glance(None, [(None, None)], seed=0)

    def look(self, loop):
        count = glance.TRIED if not self.spent else glance.IMAGES
        took = 0.02 * count / glance.IMAGES * (2 if len(drawn) < 2 else 1)
        clock.now += took
        drawn.append(clock.now)
        self.spent += took
        self.cost = took * glance.IMAGES / count

    monkeypatch.setattr(Glance, "_look", look)
    for _ in range(2000):
        clock.now += 0.1
        looking(None)
        assert looking.spent <= 0.01 * clock.now
    assert drawn[0] >= glance.PATIENCE
    assert len(drawn) > 20


def test_images_that_cannot_be_read_stop_nothing_and_are_noted_by_nobody(tmp_path):
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for i, image in enumerate(open_images("digits", channels=1, subset=8).tensors()[0]):
        Image.fromarray(image[0].numpy()).save(folder / f"{i}.png")
    images = open_images(str(folder), split="all", channels=1, storage="stream")
    for i in range(4):
        Path(folder / f"{i}.png").write_bytes(b"not an image")
    looking = Glance(images, [], seed=0)
    assert sum(looking._read(row) is not None for row in range(8)) == 4
    assert images.skipped == ()


def test_without_a_terminal_there_is_one_line_an_epoch_with_its_mean_losses(tmp_path, tiny, capsys):
    run = train(tiny(epochs=3, subset=96, encoder="tiny", action_pairs=0), tmp_path / "run", checkpoint_every=1)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("duet epoch")]
    assert [line.partition(":")[0] for line in lines] == [f"duet epoch {number}/3" for number in (1, 2, 3)]
    with (run / "metrics.csv").open() as file:
        logged = list(csv.DictReader(file))
    means = [np.mean([float(row["group"]) for row in logged if int(row["epoch"]) == epoch]) for epoch in range(3)]
    told = [float(re.search(r"group ([\d.]+)", line)[1]) for line in lines]
    assert told == pytest.approx(means, rel=0.01)
    assert all("losses content " in line and "; head accuracy " in line for line in lines)


@pytest.mark.parametrize("how", ["quiet", "inside"])
def test_nobody_asked_for_lines_where_there_is_quiet_or_other_progress(tmp_path, tiny, capsys, how):
    with progress.without_bars() if how == "inside" else nullcontext():
        train(tiny(epochs=1, subset=64, encoder="tiny", action_pairs=0), tmp_path / "run", quiet=how == "quiet")
    assert "epoch 1/1:" not in capsys.readouterr().err
