"""A trunk that is not pretrained but always the same: what tests take for a large frozen network."""

import torch
from torch import nn


def build(channels=3):
    """Two convolutions with batch norm, 8 and 12 channels; a pool and a linear layer that nobody reads."""
    generator = torch.Generator().manual_seed(5)
    network = nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5)),
    )
    with torch.no_grad():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.5 + 0.1)
        for layer in network:
            if isinstance(layer, nn.Conv2d):
                layer.weight -= layer.weight.mean()
    return network
