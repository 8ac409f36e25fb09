"""Two processes give the scores of one."""

from types import SimpleNamespace

import lightning as L
import torch
import torch.distributed
import torch.multiprocessing
from lightning.pytorch.plugins.precision import Precision
from torch import nn

from duet.callback import OnlineEquivariance
from duet.metrics import EquivarianceSpectrum
from tests.warm import CONTEXT, prepare

from ..representation.test_spectrum import features

WORLD = 2


def views():
    z, g = features(images=120, views=4, noise=0.2)
    return z.flatten(0, 1), torch.arange(120).repeat_interleave(4), g.flatten()


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 12))
        self.images = 0
        self.encoder.register_forward_pre_hook(self.count)

    def count(self, _, given):
        self.images += len(given[0])


def callback_scores(rank, world):
    """What the callback finds, and of how many images this process had to look at how many."""
    images = torch.rand(41, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    trainer = SimpleNamespace(global_rank=rank, world_size=world, precision_plugin=Precision())
    module = Module()
    return OnlineEquivariance(images, "rot360", views=3, batch=20).score(trainer, module), module.images


def run_rank(rank, meeting, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=WORLD)
    try:
        # Unequal shares, and the views of one image in both of them.
        own = torch.arange(480) % 3 == 0 if rank == 0 else torch.arange(480) % 3 > 0
        metric = EquivarianceSpectrum("rot360")
        for part in torch.split(own.nonzero().flatten(), 50):
            metric.update(*(column[part] for column in views()))
        results[rank] = metric.compute()
        results[f"callback {rank}"] = callback_scores(rank, WORLD)
    finally:
        torch.distributed.destroy_process_group()


def test_two_ranks_equal_one_process(tmp_path):
    prepare()
    with CONTEXT.Manager() as manager:
        results = manager.dict()
        given = (tmp_path / "meeting", results)
        torch.multiprocessing.start_processes(run_rank, given, WORLD, start_method="forkserver")
        found = [dict(results[rank]) for rank in range(WORLD)]
        (first, mine), (second, yours) = (results[f"callback {rank}"] for rank in range(WORLD))
    alone = EquivarianceSpectrum("rot360")
    alone.update(*views())
    assert found[0] == found[1]
    expected = alone.compute()
    assert found[0].keys() == expected.keys()
    for name, value in expected.items():
        assert abs(found[0][name] - value) < 1e-9
    together, images = callback_scores(0, 1)
    assert first == second
    assert {name: round(value, 5) for name, value in first.items()} == {
        name: round(value, 5) for name, value in together.items()
    }
    assert images == mine + yours == 123
    assert abs(mine - yours) <= 1
