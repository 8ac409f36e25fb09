"""Two gloo processes give the value and the gradient of one process on the joined batch."""

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from duet.objectives import all_gather, nt_xent
from tests.warm import CONTEXT, prepare

WORLD, N, DIM = 2, 5, 6


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, WORLD * N, DIM, generator=generator, dtype=torch.float64)  # (view, image, feature)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(DIM, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def local_rows(rank):
    return batch()[:, rank * N : (rank + 1) * N]


def run_rank(rank, meeting, chunk, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=WORLD)
    try:
        first, second = local_rows(rank)
        # 1. the gradient of the features themselves
        leaves = [first.clone().requires_grad_(), second.clone().requires_grad_()]
        loss = nt_xent(*leaves, gather=all_gather, chunk=chunk)
        features = torch.autograd.grad(loss, leaves)
        # 2. the gradient of the parameters, averaged over the ranks by DistributedDataParallel
        model = DistributedDataParallel(network())
        embedded = model(torch.cat([first, second]))
        nt_xent(embedded[:N], embedded[N:], gather=all_gather, chunk=chunk).backward()
        parameters = [p.grad for p in model.module.parameters()]
        results[rank] = [t.detach().numpy() for t in (loss, *features, *parameters)]
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("chunk", [None, 3])
def test_two_ranks_equal_one_process_on_the_joined_batch(tmp_path, chunk):
    prepare()
    with CONTEXT.Manager() as manager:
        results = manager.dict()
        given = (tmp_path / "meeting", chunk, results)
        torch.multiprocessing.start_processes(run_rank, given, WORLD, start_method="forkserver")
        ranks = [[torch.from_numpy(array) for array in results[rank]] for rank in range(WORLD)]

    joined = [view.clone().requires_grad_() for view in batch()]
    loss = nt_xent(*joined)
    features = torch.autograd.grad(loss, joined)
    model = network()
    embedded = model(torch.cat(list(batch())))
    nt_xent(*embedded.split(WORLD * N)).backward()

    near = lambda a, b: torch.testing.assert_close(a, b, atol=1e-6, rtol=0)  # noqa: E731
    near(sum(values[0] for values in ranks) / WORLD, loss.detach())
    for rank, values in enumerate(ranks):
        for k in (0, 1):  # world size times the joined gradient, which the average over ranks divides out
            near(values[1 + k] / WORLD, features[k][rank * N : (rank + 1) * N])
        for found, parameter in zip(values[3:], model.parameters(), strict=True):
            near(found, parameter.grad)
