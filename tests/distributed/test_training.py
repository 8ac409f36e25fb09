"""Two processes: the gradient of the joined batch, and one artifact."""

import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn

import duet
from duet import GROUPS
from duet.groups import Stack
from duet.methods import ESSL, Duet, SimCLR
from duet.methods.method import Views
from duet.networks import Projector, wrap
from duet.objectives import all_gather
from duet.representation import Axis, Flat, Table, VonMises
from tests.warm import CONTEXT, prepare

from ..training.conftest import FLAGS, environment


def build(name):
    torch.manual_seed(0)
    backbone = wrap(
        nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 32), nn.Tanh()), channels=1, width=32
    )
    backbone.norm = nn.Identity()  # batch statistics differ between processes by design
    layout = Table(4, Axis("rot360", 8, VonMises(sigma=0.2))) if name == "duet" else Flat(32)
    projector = Projector(layout.content(torch.zeros(1, 32)).shape[1], (16,), 8)
    for i, layer in enumerate(projector):
        if isinstance(layer, nn.BatchNorm1d):
            projector[i] = nn.Identity()
    if name == "duet":
        return Duet(backbone, layout, projector).double()
    if name == "essl":
        return ESSL(backbone, layout, projector, [GROUPS["rot360"]], hidden=16).double()
    return SimCLR(backbone, layout, projector).double()


def joined_views(method, n=12):
    images = torch.rand(n, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return method.draw_views(images, Stack.rrc_plus("rot360"), torch.Generator().manual_seed(2))


def share(views, rank, world, n=12):
    """The rows of one process: its images' two views, and their extra ones."""
    part = n // world
    rows = torch.cat([torch.arange(part) + rank * part, n + torch.arange(part) + rank * part])
    extra = {
        name: type(view)(view.images[rows[:part]], {k: v[rows[:part]] for k, v in view.g.items()})
        for name, view in views.extra.items()
    }
    return Views(views.images[rows], {name: g[rows] for name, g in views.g.items()}, extra=extra)


def gradients(method, views, gather=None):
    method.zero_grad()
    sum(method.losses(views, gather).values()).backward()
    return [p.grad.clone() for p in method.parameters()]


def process(rank, meeting, name, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=2)
    method = build(name)
    mine = gradients(method, share(joined_views(method), rank, 2), all_gather)
    for gradient in mine:  # what DistributedDataParallel does
        dist.all_reduce(gradient)
        gradient /= 2
    if rank == 0:
        results.put([g.numpy() for g in mine])
    dist.destroy_process_group()


@pytest.mark.parametrize("name", ["duet", "simclr", "essl"])
def test_two_processes_have_the_gradient_of_the_joined_batch(tmp_path, name):
    method = build(name)
    expected = gradients(method, joined_views(method))
    prepare()
    results = CONTEXT.SimpleQueue()
    workers = [CONTEXT.Process(target=process, args=(r, tmp_path / "meeting", name, results)) for r in (0, 1)]
    for worker in workers:
        worker.start()
    found = results.get()
    for worker in workers:
        worker.join()
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert abs(torch.from_numpy(ours) - theirs).max() < 1e-6
    without = gradients(method, share(joined_views(method), 0, 2))
    assert any((a - b).abs().max() > 1e-4 for a, b in zip(without, expected, strict=True))


@pytest.mark.slow
def test_two_processes_train_and_save_one_artifact(tmp_path):
    run = tmp_path / "run"
    line = [sys.executable, "-m", "duet.cli", "train", *FLAGS, "--devices", "2", "--epochs", "2", "--out", str(run)]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    encoder = duet.load(run)
    assert encoder.embed(torch.rand(2, 1, 28, 28)).flat.shape == (2, 128)
    assert done.stdout.count("The model is in") == 1
    assert sorted(p.name for p in run.iterdir()) == [
        *("checkpoints", "config.yaml", "images.json", "machine.json", "metrics.csv", "model")
    ]
