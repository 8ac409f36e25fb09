"""The stride of a network, found by sending images through it."""

import pytest
import torch
from torch import nn

from duet.networks import build_backbone
from duet.networks.stride import stride_of


@pytest.mark.parametrize(
    ("name", "stride"), [("tiny", 16), ("small", 16), ("resnet18", 32), ("resnet18-cifar", 8), ("resnet20", 4)]
)
def test_the_stride_of_a_backbone_is_the_product_of_its_stages(name, stride):
    network = build_backbone(name, channels=1)
    assert stride_of(network, torch.zeros(2, 1, 32, 32)) == stride


@pytest.mark.parametrize("side", [1, 3, 4, 5, 8, 15])
def test_images_that_are_too_small_show_a_stride_above_their_side(side):
    assert stride_of(build_backbone("tiny", channels=1), torch.zeros(2, 1, side, side)) > side


def test_layers_of_ones_own_count_and_layers_side_by_side_count_once():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 2, 3, 3), nn.AvgPool2d(3)
            self.third = nn.Sequential(nn.Conv2d(2, 2, 1), nn.MaxPool2d((2, 2)))

        def forward(self, x):
            return self.third(self.first(x) + self.second(x)).mean((2, 3))

    assert stride_of(Two(), torch.zeros(2, 1, 30, 30)) == 6


def test_nothing_of_the_network_or_of_chance_is_changed():
    network = build_backbone("tiny", channels=1).train()
    network.body.eval()
    network.map = nn.Dropout()
    before, modes = {k: v.clone() for k, v in network.state_dict().items()}, [m.training for m in network.modules()]
    state = torch.get_rng_state()
    stride_of(network, torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert [m.training for m in network.modules()] == modes
    assert not any(m._forward_pre_hooks for m in network.modules())
