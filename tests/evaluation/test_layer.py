"""Layers inside a network: their outputs from one forward pass, and the same scores as if they stood alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from duet.evaluation import Sizes, as_subject
from duet.evaluation.layer import Tap, as_map, check_layers, find_layers, layer_contexts, split_by_size
from duet.evaluation.spectrum import Harmonics
from duet.groups import GROUPS

from .conftest import make_context

SMALL = Sizes(images=12, few=4, sweep=6, copies=6, queries=2, probe=40, views=3)


class Network(nn.Module):
    """Maps, a part that is used twice and works in place, and a vector at the end; counts the images it sees."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.blocks = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Conv2d(6, 8, 3, padding=1))
        self.head = nn.Linear(8, 5)
        self.unused = nn.Linear(2, 2)
        self.images = 0

    def forward(self, images):
        self.images += len(images)
        x = self.relu(self.stem(images))
        x = self.relu(self.blocks(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture
def network():
    return Network().eval()


@pytest.fixture
def images():
    return torch.rand(80, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_every_layer_in_one_pass_as_if_it_stood_alone(network, images):
    subject = as_subject(network, "rot360", images, batch=7)
    tap = Tap(network, ["stem", "relu", "blocks.0", "blocks.1", "head"])
    readings = tap.readings(subject, images)
    assert [(r.title, r.side, r.width) for r in readings] == [
        ("stem (pooled)", 1, 4),
        ("stem (grid)", 4, 64),
        ("relu (pooled)", 1, 8),
        ("relu (grid)", 4, 128),
        ("blocks.0 (pooled)", 1, 6),
        ("blocks.0 (grid)", 4, 96),
        ("blocks.1 (pooled)", 1, 8),
        ("blocks.1 (grid)", 4, 128),
        ("head (pooled)", 1, 5),
    ]
    network.images = 0
    found = tap.outputs(subject, images[:20], readings)
    assert network.images == 20
    with torch.no_grad():
        stem = network.stem(images[:20])
        first = network.blocks[0](stem.relu())
        second = network.blocks[1](first)
        last = second.relu()
        wanted = []
        for output in (stem, last, first, second):
            wanted += [output.mean((2, 3)), F.adaptive_avg_pool2d(output, 4).flatten(1)]
        wanted.append(network.head(last.mean((2, 3))))
    assert torch.allclose(found, torch.cat(wanted, 1), atol=1e-6)
    assert not network._forward_pre_hooks
    assert not network.stem._forward_hooks


def test_a_layer_scores_as_an_encoder_of_its_own_would(network, images):
    group = GROUPS["rot360"]
    context = make_context(as_subject(network, "rot360", images), images, group, sizes=SMALL)
    network.images = 0
    found = dict(layer_contexts(context, network, ["blocks.0", "head"], [group, GROUPS["rot4"]]))
    together = network.images
    assert [reading.title for reading in found] == ["blocks.0 (pooled)", "blocks.0 (grid)", "head (pooled)"]

    def alone(x):
        return F.adaptive_avg_pool2d(network.blocks[0](network.stem(x).relu()), 4).flatten(1)

    own = make_context(as_subject(alone, "rot360", images), images, group, sizes=SMALL)
    grid = next(contexts for reading, contexts in found.items() if reading.kind == "grid")
    ours, theirs = Harmonics().measure(grid["rot360"]).scalars, Harmonics().measure(own).scalars
    for key in ("median_difference_error_degrees", "capacity_0", "capacity_1"):
        assert ours[key] == pytest.approx(theirs[key], rel=1e-3, abs=1e-3)
    assert "difference_accuracy" in Harmonics().measure(grid["rot4"]).scalars
    torch.testing.assert_close(grid["rot360"].train_features.z, own.train_features.z)
    # Two to see what there is, then each image once, however many layers: views and steps of two groups, all labelled.
    assert together == 2 + 2 * (40 * 3) + (12 * 6 + 12 * 4) + 80


def test_layers_that_do_not_fit_the_memory_wait_for_another_pass(network, images, monkeypatch):
    group = GROUPS["rot360"]
    context = make_context(as_subject(network, "rot360", images), images, group, sizes=SMALL)
    wide = [
        (r.title, c["rot360"].train_features.z)
        for r, c in layer_contexts(context, network, ["stem", "blocks"], [group])
    ]
    network.images = 0
    monkeypatch.setattr("duet.evaluation.layer.BYTES", 4 * 200 * (40 * 3 + 12 * 6 + 80))
    narrow = [
        (r.title, c["rot360"].train_features.z)
        for r, c in layer_contexts(context, network, ["stem", "blocks"], [group])
    ]
    assert [title for title, _ in wide] == [title for title, _ in narrow]
    for (_, a), (_, b) in zip(wide, narrow, strict=True):
        torch.testing.assert_close(a, b)
    passes = (network.images - 2) / (40 * 3 + 12 * 6 + 80)
    assert passes == 2  # 64 + 4 + 8 + 128 numbers are more than 200


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 60))
def test_parts_are_whole_in_order_and_small_enough(widths, most):
    parts = split_by_size(widths, most)
    assert [place for part in parts for place in part] == list(range(len(widths)))
    assert all(sum(widths[i] for i in part) <= most or len(part) == 1 for part in parts)


def test_names_and_patterns(network):
    assert find_layers(network, ["blocks.*", "stem"]) == ["stem", "blocks.0", "blocks.1"]
    assert find_layers(network, ["*"]) == ["stem", "relu", "blocks", "head", "unused"]
    check_layers([network], ["blocks.1", "s*"])
    with pytest.raises(ValueError, match=r"no layer 'block.1' .did you mean 'blocks.1'"):
        check_layers([network], ["block.1"])
    with pytest.raises(ValueError, match="the first are stem, relu, blocks"):
        check_layers([network], ["zzzzzz"])
    with pytest.raises(ValueError, match="none of the encoders is a module"):
        check_layers([], ["stem"])


def test_what_cannot_be_read_is_said(network, images):
    subject = as_subject(network, "rot360", images)
    with pytest.raises(ValueError, match="unused takes no part"):
        Tap(network, ["unused"]).readings(subject, images)

    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Pair()

        def forward(self, x):
            return self.pair(x)[0].flatten(1)

    outer = Outer()
    with pytest.raises(ValueError, match="the layer pair puts out a tuple"):
        Tap(outer, ["pair"]).readings(as_subject(outer, "rot360", images), images)


def test_tokens_are_a_map():
    maps = torch.rand(2, 5, 3, 3)
    tokens = maps.flatten(2).transpose(1, 2)
    assert torch.equal(as_map(tokens), maps)
    assert torch.equal(as_map(torch.cat([torch.zeros(2, 1, 5), tokens], 1)), maps)
    assert as_map(torch.rand(2, 7, 5)).shape == (2, 5, 1, 7)  # no square: a row


def test_a_layer_of_many_channels_has_a_coarser_grid_or_none(images):
    for channels, side in ((128, 4), (200, 3), (300, 2), (600, None)):
        network = nn.Sequential(nn.Conv2d(1, channels, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        readings = Tap(network, ["0"]).readings(as_subject(network, "rot360", images), images)
        assert [r.side for r in readings] == [1] + ([] if side is None else [side])
