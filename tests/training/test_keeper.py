"""What a run keeps, and what its processes ask each other for it."""

import csv
import signal
from types import SimpleNamespace

import pytest
import torch

from duet.training import Diverged, Pretraining, Stopped
from duet.training.keeper import SYNC_EVERY, Keeper, Metrics


class Strategy:
    """Counts the questions to the other processes, of which one may have been asked to stop."""

    root_device = torch.device("cpu")

    def __init__(self):
        self.asked = []
        self.another = 0

    def reduce(self, value, reduce_op):
        assert reduce_op == "max"
        assert value.numel() == 1
        self.asked.append(int(value))
        return torch.maximum(value, torch.tensor(self.another))


class Trainer:
    """As much of Lightning's trainer as the keeper sees."""

    is_global_zero = True
    loggers = ()

    def __init__(self, world_size, accumulate=1):
        self.world_size, self.accumulate_grad_batches = world_size, accumulate
        self.strategy = Strategy()
        self.optimizers = [SimpleNamespace(param_groups=[{"lr": 0.1}])]
        self.saved = []

    def save_checkpoint(self, path):
        self.saved.append(self.done)


class Steps:
    start = 0

    def __init__(self, per_epoch, epochs):
        self.per_epoch, self.epochs = per_epoch, epochs

    def __len__(self):
        return self.per_epoch * self.epochs


@pytest.fixture
def run(tmp_path):
    """Go through the batches of a run; returns the trainer, and whatever ended it."""

    def go(world_size, epochs=10, per_epoch=10, accumulate=1, every=None, seconds=1e9, at=None):
        trainer = Trainer(world_size, accumulate)
        keeper = Keeper(tmp_path / "run", every, seconds)
        module = Pretraining.__new__(Pretraining)
        torch.nn.Module.__init__(module)
        module.steps = Steps(per_epoch, epochs)
        module.latest = {"loss": torch.tensor(1.0), "content": torch.tensor(1.0)}
        module._device = torch.device("cpu")
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        keeper.on_train_start(trainer, module)
        try:
            for batch in range(len(module.steps)):
                trainer.done = batch + 1
                for step, action in (at or {}).items():
                    if step == batch + 1:
                        action(keeper, trainer, module)
                keeper.on_train_batch_end(trainer, module, None, None, batch)
        except (Stopped, Diverged) as stopped:
            return trainer, stopped
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return trainer, None

    return go


def ask(keeper, trainer, module):
    keeper._ask(15, None)


def other_asks(keeper, trainer, module):
    trainer.strategy.another = 2


def test_one_process_asks_nobody(run):
    trainer, _ = run(1, every=7)
    assert trainer.strategy.asked == []
    assert trainer.saved == [*range(7, 100, 7), 100]


@pytest.mark.parametrize("options", [{}, {"every": 7}, {"seconds": 0}, {"accumulate": 4}], ids=str)
def test_several_processes_ask_each_other_once_now_and_then(run, options):
    trainer, stopped = run(2, **options)
    assert stopped is None
    steps = 100 // options.get("accumulate", 1)
    assert len(trainer.strategy.asked) <= steps // SYNC_EVERY + 1
    assert len(trainer.strategy.asked) >= 2
    assert trainer.saved[-1] == 100


def test_what_every_process_knows_is_saved_without_asking(run):
    trainer, _ = run(2, every=7)
    assert trainer.saved == [*range(7, 100, 7), 100]


def test_a_clock_is_no_common_knowledge_so_the_others_are_asked(run):
    trainer, _ = run(2, seconds=0)
    assert set(trainer.saved[:-1]) <= set(range(SYNC_EVERY, 100, SYNC_EVERY))
    assert len(trainer.saved) > 3


def test_one_process_stops_at_once_and_several_together_soon(run):
    trainer, stopped = run(1, at={13: ask})
    assert "stopped at step 13 of 100" in str(stopped)
    assert trainer.saved == [13]
    for who in (ask, other_asks):
        trainer, stopped = run(2, at={13: who})
        assert "stopped at step 16 of 100" in str(stopped)
        assert trainer.saved == [16]


def test_gradients_that_are_still_added_up_are_in_no_checkpoint(run):
    trainer, _ = run(1, accumulate=4, every=3)
    assert all(done % 4 == 0 for done in trainer.saved)
    _, stopped = run(1, accumulate=4, at={13: ask})
    assert "step 16" in str(stopped)


def test_a_term_that_is_no_number_is_named(run):
    def harm(keeper, trainer, module):
        module.latest = {"loss": torch.tensor(1.0), "content": torch.tensor(float("inf"))}

    _, stopped = run(1, at={5: harm})
    assert isinstance(stopped, Diverged)
    assert "the content term became inf at step 5" in str(stopped)


def test_a_second_signal_does_not_wait(tmp_path):
    keeper = Keeper(tmp_path)
    keeper._ask(2, None)
    with pytest.raises(KeyboardInterrupt):
        keeper._ask(2, None)


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
