"""Encoders whose scores are known: one that is exactly equivariant, one that sees nothing."""

import pytest
import torch
from torch import nn

from duet.data import MemoryImages
from duet.evaluation import Context, Sizes, as_subject
from duet.evaluation.subject import Outsider
from duet.groups import find_group
from duet.representation import Axis, Gaussian, Table

SMALL = Sizes(images=12, sweep=16, copies=16, queries=3, probe=64, decoder_steps=3)
BRIGHTNESS = Table(3, Axis("brightness", 8, Gaussian(0.2)))


class Counter:
    """A features function that counts the images it was given."""

    def __init__(self, features):
        self.features, self.images = features, 0

    def __call__(self, images):
        self.images += len(images)
        return self.features(images)


def tinted(n, seed=0):
    """Plain coloured images whose brightest channel mean is 1/2, so that no brightness clips: (n,3,4,4)."""
    colours = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed)) * 0.4 + 0.2
    colours = colours / colours.mean(1, keepdim=True) * 0.35
    return colours.view(n, 3, 1, 1).expand(-1, -1, 4, 4).contiguous()


def read_brightness(images, sharpness=1.0):
    """z_ij = hue of the image_i + log Q_j(g): T_g f(x) = f(tau_g x) holds exactly."""
    colours = images.mean((2, 3))
    mean = colours.mean(1, keepdim=True)
    g = ((mean[:, 0] / 0.35 - 0.6) / 0.8).clamp(0, 1)
    logits = sharpness * BRIGHTNESS.axes[0].target.log_masses(g, 8)
    return ((colours / mean).unsqueeze(2) + (logits - logits.mean(1, keepdim=True)).unsqueeze(1)).flatten(1)


def see_nothing(images):
    return torch.ones(len(images), 5)


def make_context(subject, images, group, labels=None, sizes=SMALL):
    half = len(images) // 2
    labels = torch.arange(len(images)) % 2 if labels is None else labels
    train = MemoryImages("made", "train", images[:half], labels[:half])
    test = MemoryImages("made", "test", images[half:], labels[half:])
    return Context(subject, train, test, group, sizes)


@pytest.fixture
def perfect():
    """An exactly equivariant table for brightness, and the counter of its forward passes."""
    group = find_group("brightness")
    counter = Counter(read_brightness)
    subject = Outsider(counter, BRIGHTNESS, {"brightness": group}, description={"method": "oracle"}, digest="oracle")
    return make_context(subject, tinted(80), group), counter


@pytest.fixture
def pixels():
    """Raw pixels under quarter turns: a permutation, so the fitted action can be exact; no table."""
    images = torch.rand(800, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    subject = as_subject(nn.Flatten(), "rot4", images[:2], name="pixels")
    return make_context(subject, images, find_group("rot4"))


@pytest.fixture
def collapsed():
    images = torch.rand(80, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    subject = as_subject(see_nothing, "rot360", images[:2])
    return make_context(subject, images, find_group("rot360"))
