"""A tabulated target stands for the target it was made from."""

import pytest
import torch

from duet.representation import Axis, Concatenated, Flat, Gaussian, Joint, Table, VonMises, act, recover
from duet.representation.tabulated import Tabulated, tabulated

TARGETS = [make(sigma) for make in (Gaussian, VonMises) for sigma in (0.02, 0.2, 0.6)]
EDGES = torch.tensor([0.0, 1e-7, 0.5, 1 - 1e-6, 1.0])


@pytest.mark.parametrize("bins", [3, 8, 64])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_log_masses_agree_everywhere(target, bins):
    g = torch.cat([torch.rand(5000, generator=torch.Generator().manual_seed(0)), EDGES])
    exact = target.log_masses(g, bins)
    error = (Tabulated(target, bins).log_masses(g, bins) - exact).abs() / exact.abs().clamp(min=1)
    assert error.max() < 1e-5


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("method", ["fit", "match"])
def test_recovery_is_the_same_function(method, target):
    masses = torch.rand(500, 8, generator=torch.Generator().manual_seed(0)).pow(3)
    ours, exact = Tabulated(target, 8).estimate(masses, method), target.estimate(masses, method)
    assert torch.allclose(ours.g, exact.g, atol=1e-6)
    assert torch.allclose(ours.spread, exact.spread, atol=1e-6)


@pytest.mark.parametrize("kind", [Table, Joint, Concatenated, Flat])
def test_a_layout_keeps_its_kind_and_its_functions(kind):
    axes = [Axis("angle", 8, VonMises(0.2)), Axis("light", 4, Gaussian(0.2))]
    layout = Flat(7) if kind is Flat else Table(3, axes[0]) if kind is Table else kind(3, axes)
    ours = tabulated(layout)
    assert type(ours) is kind
    assert ours.dim == layout.dim
    z, g = torch.randn(5, layout.dim), torch.rand(5)
    for axis in layout.axes:
        assert torch.allclose(act(z, ours, axis.name, g), act(z, layout, axis.name, g), atol=1e-5)
        assert torch.allclose(recover(z, ours, axis.name).g, recover(z, layout, axis.name).g, atol=2e-6)
