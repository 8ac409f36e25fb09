"""Two processes give the scores of one."""

import torch
import torch.distributed
import torch.multiprocessing

from duet.metrics import EquivarianceSpectrum

from ..representation.test_spectrum import features
from .test_gather import free_port

WORLD = 2


def views():
    z, g = features(images=120, views=4, noise=0.2)
    return z.flatten(0, 1), torch.arange(120).repeat_interleave(4), g.flatten()


def run_rank(rank, port, results):
    torch.set_num_threads(1)
    store = torch.distributed.TCPStore("127.0.0.1", port, WORLD, is_master=rank == 0)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    try:
        # Unequal shares, and the views of one image in both of them.
        own = torch.arange(480) % 3 == 0 if rank == 0 else torch.arange(480) % 3 > 0
        metric = EquivarianceSpectrum("rot360")
        for part in torch.split(own.nonzero().flatten(), 50):
            metric.update(*(column[part] for column in views()))
        results[rank] = metric.compute()
    finally:
        torch.distributed.destroy_process_group()


def test_two_ranks_equal_one_process():
    with torch.multiprocessing.get_context("spawn").Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(run_rank, (free_port(), results), nprocs=WORLD)
        found = [dict(results[rank]) for rank in range(WORLD)]
    alone = EquivarianceSpectrum("rot360")
    alone.update(*views())
    assert found[0] == found[1]
    expected = alone.compute()
    assert found[0].keys() == expected.keys()
    for name, value in expected.items():
        assert abs(found[0][name] - value) < 1e-9
