import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from duet.networks import convolution
from duet.networks.convolution import SMALL_MAP, Conv2d, _MatrixGradient, weight_gradient

SHAPES = [
    (3, 1, 1, 4),
    (3, 2, 1, 5),
    (3, 2, 1, 6),
    (1, 1, 0, 3),
    (1, 2, 0, 4),
    (5, 1, 2, 4),
]  # kernel, stride, padding, side


@pytest.fixture
def amx(monkeypatch):
    monkeypatch.setattr(convolution, "has_amx", lambda: True)


def pair(kernel=3, stride=1, padding=1):
    ours = Conv2d(8, 16, kernel, stride, padding=padding, bias=False)
    plain = nn.Conv2d(8, 16, kernel, stride, padding=padding, bias=False)
    plain.load_state_dict(ours.state_dict())
    return ours, plain


@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), SHAPES)
def test_the_matrix_product_is_the_gradient_of_the_weight(kernel, stride, padding, side):
    x = torch.randn(3, 4, side, side + 1, dtype=torch.float64)
    weight = torch.randn(6, 4, kernel, kernel, dtype=torch.float64, requires_grad=True)
    y = nn.functional.conv2d(x, weight, None, stride, padding)
    dy = torch.randn_like(y)
    (expected,) = torch.autograd.grad(y, weight, dy)
    assert torch.allclose(weight_gradient(x, dy, kernel, stride, padding), expected, atol=1e-12)


@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), SHAPES[:3])
def test_both_gradients_are_those_of_finite_differences(kernel, stride, padding, side):
    x = torch.randn(2, 2, side, side, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 2, kernel, kernel, dtype=torch.float64, requires_grad=True)
    assert gradcheck(_MatrixGradient.apply, (x, weight, stride, padding))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), SHAPES)
def test_under_bfloat16_values_and_gradients_are_those_of_the_plain_layer(kernel, stride, padding, side, layout, amx):
    ours, plain = (layer.to(memory_format=layout) for layer in pair(kernel, stride, padding))
    images = torch.randn(32, 8, side, side).contiguous(memory_format=layout)
    found = []
    for layer in (ours, plain):
        x = images.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        y.float().square().mean().backward()
        found.append((y, x.grad, layer.weight.grad))
    assert torch.equal(found[0][0], found[1][0])
    for mine, expected in zip(found[0][1:], found[1][1:], strict=True):
        assert mine.dtype == torch.float32
        assert (mine - expected).norm() < 0.01 * expected.norm()


def test_it_is_used_for_small_maps_in_training_under_bfloat16_and_nowhere_else(amx):
    layer = Conv2d(8, 16, 3, padding=1, bias=False)
    small, large = torch.zeros(2, 8, 4, 4), torch.zeros(2, 8, 5, 5)
    assert SMALL_MAP == 4 * 4
    assert not layer.pays(small)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.pays(small)
        assert not layer.pays(large)
        assert not Conv2d(8, 16, 3, padding=1).pays(small)  # a bias has a gradient too
        assert not Conv2d(8, 16, 3, padding=1, groups=2, bias=False).pays(small)
        with torch.no_grad():
            assert not layer.pays(small)
    with torch.autocast("cpu", torch.float16):
        assert not layer.pays(small)


def test_a_cpu_without_amx_takes_the_plain_layer(monkeypatch):
    monkeypatch.setattr(convolution, "has_amx", lambda: False)
    with torch.autocast("cpu", torch.bfloat16):
        assert not Conv2d(8, 16, 3, padding=1, bias=False).pays(torch.zeros(2, 8, 4, 4))
