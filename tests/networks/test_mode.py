"""Running statistics: kept while other batches pass, and estimated anew."""

import torch
from torch import nn

from duet.networks import build_backbone
from duet.networks.mode import estimate_statistics, statistics_kept


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_batches_pass_by_the_running_statistics_and_have_their_gradient():
    torch.manual_seed(0)
    backbone = build_backbone("tiny")
    before = state(backbone)
    with statistics_kept(backbone):
        backbone(torch.rand(8, 3, 16, 16)).square().sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())
    assert all(p.grad is not None for p in backbone.parameters())
    backbone(torch.rand(8, 3, 16, 16))
    assert any(not torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_statistics_are_the_plain_average_over_the_batches():
    norm = nn.BatchNorm1d(3)
    norm(100 * torch.randn(5, 3))
    model = nn.Sequential(norm, nn.Dropout(0.5))
    model.train()
    batches = [torch.randn(7, 3) + i for i in range(4)]
    estimate_statistics(model, batches)
    torch.testing.assert_close(norm.running_mean, torch.stack([b.mean(0) for b in batches]).mean(0))
    torch.testing.assert_close(norm.running_var, torch.stack([b.var(0) for b in batches]).mean(0))
    assert (norm.momentum, model.training, model[1].training) == (0.1, True, True)
