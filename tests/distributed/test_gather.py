"""Two gloo processes give the value and the gradient of one process on the joined batch."""

from functools import partial

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from duet.objectives import all_gather, barlow_twins, contrast_views, nt_xent, sigreg, tcr, vicreg
from tests.warm import CONTEXT, prepare

WORLD, N, DIM = 2, 5, 6
CASES = {
    "nt_xent": (nt_xent, 2),
    "nt_xent in chunks": (partial(nt_xent, chunk=3), 2),
    "nt_xent of three views": (nt_xent, 3),
    "vicreg": (vicreg, 2),
    "vicreg of three views": (vicreg, 3),
    "barlow_twins": (barlow_twins, 2),
    "barlow_twins of three views": (barlow_twins, 3),
    "sigreg": (partial(sigreg, slices=8), 2),
    "sigreg of three views": (partial(sigreg, slices=8), 3),
    "tcr": (tcr, 2),
    "tcr of three views": (tcr, 3),
}
"""A contrast, and of how many views."""


def batch(count):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, WORLD * N, DIM, generator=generator, dtype=torch.float64)  # (view, image, feature)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(DIM, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def values(case, rank=None):
    """The loss, its gradient for every view, and for every weight: of a rank's rows, or of the joined batch."""
    contrast, count = CASES[case]
    views = batch(count) if rank is None else batch(count)[:, rank * N : (rank + 1) * N]
    gather = None if rank is None else all_gather
    # 1. the gradient of the features themselves
    leaves = [view.clone().requires_grad_() for view in views]
    torch.manual_seed(rank or 0)  # ranks draw numbers of their own
    loss = contrast_views(leaves, contrast, gather)
    features = torch.autograd.grad(loss, leaves)
    # 2. the gradient of the parameters, averaged over the ranks by DistributedDataParallel
    plain = network()
    model = plain if rank is None else DistributedDataParallel(plain)
    embedded = model(views.flatten(0, 1)).chunk(count)
    torch.manual_seed(rank or 0)
    contrast_views(embedded, contrast, gather).backward()
    return loss.detach(), list(features), [p.grad for p in plain.parameters()]


def run_rank(rank, meeting, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=WORLD)
    try:
        for case in CASES:
            loss, features, parameters = values(case, rank)
            results[case, rank] = (loss.numpy(), [t.numpy() for t in features], [t.numpy() for t in parameters])
    finally:
        torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every rank finds, of all cases."""
    prepare()
    with CONTEXT.Manager() as manager:
        results = manager.dict()
        given = (tmp_path_factory.mktemp("ranks") / "meeting", results)
        torch.multiprocessing.start_processes(run_rank, given, WORLD, start_method="forkserver")
        return dict(results)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_equal_one_process_on_the_joined_batch(found, case):
    loss, features, parameters = values(case)
    near = lambda a, b: torch.testing.assert_close(torch.as_tensor(a), b, atol=1e-6, rtol=1e-9)  # noqa: E731
    near(sum(found[case, rank][0] for rank in range(WORLD)) / WORLD, loss)
    for rank in range(WORLD):
        _, ours, weights = found[case, rank]
        for a, b in zip(ours, features, strict=True):
            # World size times the joined gradient, which the average over ranks divides out.
            near(a / WORLD, b[rank * N : (rank + 1) * N])
        for a, b in zip(weights, parameters, strict=True):
            near(a, b)
