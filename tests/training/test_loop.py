"""The training loop: when it saves and stops, what its processes exchange for it, and how metrics are kept."""

import csv
import time
from types import SimpleNamespace

import pytest
import torch

from duet import Experiment
from duet.training import Diverged, Stopped
from duet.training.loop import SYNC_EVERY, Loop, Metrics


class Fabric:
    """As much of Fabric as the loop asks, with another process that may have been asked to stop."""

    is_global_zero, device = True, torch.device("cpu")

    def __init__(self, world_size):
        self.world_size = world_size
        self.asked = []
        self.another = 0

    def all_reduce(self, value, reduce_op):
        assert reduce_op == "max"
        assert value.numel() == 1
        self.asked.append(int(value))
        return torch.maximum(value, torch.tensor(self.another))


class Batches:
    start = 0

    def __init__(self, per_epoch, epochs):
        self.per_epoch, self.epochs = per_epoch, epochs

    def __len__(self):
        return self.per_epoch * self.epochs


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Go through the batches of a run without training; returns the fabric, what was saved, and whatever ended it."""

    def go(world_size, epochs=10, per_epoch=10, accumulate=1, every=None, seconds=1e9, at=None):
        monkeypatch.setattr("duet.training.loop.CHECKPOINT_SECONDS", seconds)
        fabric, saved = Fabric(world_size), []
        module = SimpleNamespace(
            experiment=Experiment.preset("demo", accumulate=accumulate),
            latest={"loss": torch.tensor(1.0), "content": torch.tensor(1.0)},
            parameters=lambda: [torch.zeros(1)],
        )
        loop = Loop(fabric, module, None, tmp_path / "run", checkpoint_every=every)
        loop.batches = Batches(per_epoch, epochs)
        loop.rates, loop.warm, loop.steps, loop.step, loop.log_every = [0.1], 0, 100, 0, 5
        loop.metrics, loop.saved = None, 0.0

        def save(done):
            saved.append(done)
            loop.saved, loop.due = time.monotonic(), False

        loop._save = save
        try:
            for done in range(1, len(loop.batches) + 1):
                for batch, action in (at or {}).items():
                    if batch == done:
                        action(loop)
                loop._log(done, done == len(loop.batches))
                loop._save_or_stop(done, done == len(loop.batches))
        except (Stopped, Diverged) as stopped:
            return fabric, saved, stopped
        return fabric, saved, None

    return go


def ask(loop):
    loop._ask(15, None)


def other_asks(loop):
    loop.fabric.another = 2


def test_one_process_asks_nobody(run):
    fabric, saved, _ = run(1, every=7)
    assert fabric.asked == []
    assert saved == [*range(7, 100, 7), 100]


@pytest.mark.parametrize("options", [{}, {"every": 7}, {"seconds": 0}, {"accumulate": 4}], ids=str)
def test_several_processes_ask_each_other_once_now_and_then(run, options):
    fabric, saved, stopped = run(2, **options)
    assert stopped is None
    steps = 100 // options.get("accumulate", 1)
    assert len(fabric.asked) <= steps // SYNC_EVERY + 1
    assert len(fabric.asked) >= 2
    assert saved[-1] == 100


def test_what_every_process_knows_is_saved_without_asking(run):
    _, saved, _ = run(2, every=7)
    assert saved == [*range(7, 100, 7), 100]


def test_a_clock_is_no_common_knowledge_so_the_others_are_asked(run):
    _, saved, _ = run(2, seconds=0)
    assert set(saved[:-1]) <= set(range(SYNC_EVERY, 100, SYNC_EVERY))
    assert len(saved) > 3


def test_one_process_stops_at_once_and_several_together_soon(run):
    _, saved, stopped = run(1, at={13: ask})
    assert "stopped at step 13 of 100" in str(stopped)
    assert saved == [13]
    for who in (ask, other_asks):
        _, saved, stopped = run(2, at={13: who})
        assert "stopped at step 16 of 100" in str(stopped)
        assert saved == [16]


def test_gradients_that_are_still_added_up_are_in_no_checkpoint(run):
    _, saved, _ = run(1, accumulate=4, every=3)
    assert all(done % 4 == 0 for done in saved)
    _, _, stopped = run(1, accumulate=4, at={13: ask})
    assert "step 16" in str(stopped)


def test_a_term_that_is_no_number_is_named(run):
    def harm(loop):
        loop.module.latest = {"loss": torch.tensor(1.0), "content": torch.tensor(float("inf"))}

    _, _, stopped = run(1, at={5: harm})
    assert isinstance(stopped, Diverged)
    assert "the content term became inf at step 5" in str(stopped)


def test_a_second_signal_does_not_wait(tmp_path):
    loop = Loop(Fabric(1), SimpleNamespace(experiment=None), None, tmp_path)
    loop._ask(2, None)
    with pytest.raises(KeyboardInterrupt):
        loop._ask(2, None)


def test_metrics_after_the_checkpoint_are_dropped(tmp_path):
    path = tmp_path / "metrics.csv"
    first = Metrics(path, 0)
    for step in range(1, 6):
        first.add({"step": step, "loss": torch.tensor(1 / step)})
    first.flush()
    again = Metrics(path, 3)
    again.add({"step": 4, "loss": 9.0})
    again.flush()
    with path.open() as file:
        rows = [(row["step"], float(row["loss"])) for row in csv.DictReader(file)]
    assert [step for step, _ in rows] == ["1", "2", "3", "4"]
    assert rows[-1][1] == 9.0
