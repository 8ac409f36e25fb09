"""Models that need no training: random weights, and a compass that truly tells the angle."""

import random
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from duet import Experiment, plugin
from duet.groups import GROUPS
from duet.model import Confidence, Encoder
from duet.model.confidence import Curve
from duet.model.error_quantiles import LEVELS, Errors
from duet.networks import wrap
from duet.representation import Axis, FittedAction, Table, VonMises
from duet.training.experiment import build_method
from duet.training.provenance import provenance_of

# The same examples in every run, however long one takes; `--hypothesis-profile default` draws others.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")


class Fuzz(NamedTuple):
    """How much the fuzz tests try: so many times the usual, with this seed."""

    times: int
    seed: int


def pytest_addoption(parser):
    parser.addoption("--fuzz-times", type=int, default=1, help="tests/fuzz: so many times the usual number of trials")
    parser.addoption("--fuzz-seed", type=int, default=0, help="tests/fuzz: the seed of what is tried")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Begin every test with the same random numbers, in whatever order tests run."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - scikit-learn's, where no generator is given
    torch.manual_seed(0)


@pytest.fixture
def fuzz(request):
    """How much is tried, and from which seed."""
    return Fuzz(request.config.getoption("--fuzz-times"), request.config.getoption("--fuzz-seed"))


@pytest.fixture(autouse=True)
def trusted_until_the_end(monkeypatch):
    """What a test lets us import is a stranger's again in the next one."""
    monkeypatch.setattr("duet.plugin._TRUSTED", set(plugin._TRUSTED))


def random_encoder(size=28, seed=0, **changes):
    """An encoder as training would leave it, with random weights."""
    experiment = Experiment.preset("demo", **{"encoder": "tiny", "projector": [16], **changes})
    torch.manual_seed(seed)
    method = build_method(experiment)
    for module in method.backbone.modules():
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    z = torch.randn(64, method.backbone.dim)
    actions = {
        name: FittedAction.fit(z, z, torch.rand(64), GROUPS[name].domain, order=1, elements=GROUPS[name].elements)
        for name in experiment.group
    }
    return Encoder(
        method.backbone,
        method.layout,
        experiment.groups,
        getattr(method, "reference", "absolute"),
        actions,
        size,
        ("a", "b"),
        provenance=provenance_of(experiment, method),
    )


def confident(encoder, strangeness=0.0):
    """The encoder, sure where little of P(g|x) lies far from its peak; features of norm 1 are so strange to it.

    Where it is sure its errors are below half a degree of 360.
    """
    dim = encoder.layout.dim
    knots = torch.tensor([0.3, 0.6]), torch.tensor([0.99, 0.1])
    curves = {axis.name: Curve(*knots, 0.125) for axis in encoder.layout.axes}
    quantiles = torch.tensor(LEVELS) * torch.tensor([[1 / 720], [0.5]])
    errors = {axis.name: Errors(knots[0], quantiles, 0.125) for axis in encoder.layout.axes}
    encoder.add_confidence(Confidence(torch.zeros(dim), strangeness * torch.eye(dim), curves, errors))
    return encoder


class Compass(torch.nn.Module):
    """Looks where the light is: straight above the centre is upright, none anywhere says nothing."""

    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, images):
        # (B,1,H,W) -> (B, 2 * bins): both rows of content hold the logits.
        side = torch.linspace(-1, 1, images.shape[-1])
        grey = images.mean(1)
        x, y = (grey * side).sum((1, 2)), (grey * side[:, None]).sum((1, 2))
        degrees = torch.rad2deg(torch.atan2(-x, -y))
        g = GROUPS[self.axis.name].from_parameter(torch.remainder(degrees + 180, 360) - 180)
        logits = self.axis.target.log_masses(g, self.axis.bins)
        sure = (torch.hypot(x, y) > 0.1).float()[:, None]
        return (logits * sure).repeat(1, 2)


def make_compass(size=28, group="rot360", reference="absolute"):
    axis = Axis(group, 8, VonMises(0.2))
    backbone = wrap(Compass(axis), channels=1, width=16).eval()
    return Encoder(backbone, Table(2, axis), [group], reference, image_size=size)


@pytest.fixture
def encoder():
    """Random weights, rot360, 28x28 grey images, 128 features."""
    return random_encoder()


@pytest.fixture
def compass():
    """Reads the angle of a bright spot, and knows when there is none."""
    return confident(make_compass())


@pytest.fixture
def model_folder(tmp_path):
    """A saved model with random weights; returns its folder."""

    def save(**changes):
        folder = tmp_path / f"model-{len(list(tmp_path.glob('model-*')))}"
        return random_encoder(**changes).save(folder)

    return save
