"""Rivals: the pixels, pooled by hand, and the same network without its training."""

import pytest
import torch
from torch.nn import functional as F

from duet.data import MemoryImages
from duet.evaluation import Context, Sizes, evaluate
from duet.evaluation.rival import pixels, rivals_of, untrained
from duet.groups import find_group
from tests.conftest import random_encoder

SIZES = Sizes(images=6, few=4, sweep=6, copies=6, queries=2, probe=40, views=2, train=40, test=20)
ROT = {"rot360": find_group("rot360")}


def images(n=40, channels=1, side=12, seed=0):
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(seed))


def context(encoder):
    train = MemoryImages("made", "train", images(), torch.arange(40) % 4)
    test = MemoryImages("made", "test", images(20, seed=1), torch.arange(20) % 4)
    return Context(encoder, train, test, ROT["rot360"], SIZES)


@pytest.fixture
def encoder():
    return random_encoder(encoder="tiny", size=12)


@pytest.mark.parametrize(
    ("shape", "dim", "numbers"),
    [((1, 28, 28), 128, 121), ((3, 32, 32), 128, 3 * 49), ((1, 8, 8), 128, 64), ((3, 4, 9), 2, 3)],
)
def test_pixels_are_about_as_many_numbers_as_the_features(shape, dim, numbers):
    assert pixels(shape, dim, ROT).layout.dim == numbers  # and never more than there are


def test_pixels_are_means_of_cells():
    x = images(3, channels=3)
    found = pixels((3, 12, 12), 3 * 16, ROT).features(x)
    cells = x.reshape(3, 3, 4, 3, 4, 3).mean((3, 5)).flatten(1)
    torch.testing.assert_close(found, cells)
    bytes_ = (x * 255).round().byte()
    torch.testing.assert_close(pixels((3, 12, 12), 48, ROT).features(bytes_), F.avg_pool2d(bytes_ / 255, 3).flatten(1))


def test_the_untrained_network_is_the_same_one_with_other_weights(encoder):
    rival = untrained(encoder)
    x = images(5)
    assert rival.layout.dim == encoder.layout.dim
    assert not rival.layout.axes  # it claims no columns
    assert not torch.allclose(rival.features(x), encoder.features(x))
    torch.testing.assert_close(rival.features(x), untrained(encoder).features(x))  # its weights are a seed's
    assert rival.digest == untrained(encoder).digest != untrained(encoder, seed=1).digest


def test_the_untrained_network_leaves_the_callers_random_numbers_alone(encoder):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    untrained(encoder)
    torch.testing.assert_close(torch.rand(3), expected)


def test_a_network_that_cannot_be_built_anew_has_pixels_only(encoder):
    assert list(rivals_of(encoder, (1, 12, 12))) == ["pixels", "untrained"]
    encoder.backbone.recipe = None
    assert list(rivals_of(encoder, (1, 12, 12))) == ["pixels"]


def test_rivals_stand_beside_every_result_and_are_kept(encoder, tmp_path):
    found = evaluate(context(encoder), ["classification", "spectrum"], out=tmp_path, progress=False)
    for name, result in found.items():
        assert set(result.rivals) == {"pixels", "untrained"}
        assert set(result.rivals["pixels"].scalars) & set(result.scalars)
        assert (tmp_path / "rivals" / "pixels" / f"{name}.json").exists()
    kept = (tmp_path / "rivals" / "untrained" / "spectrum.json").stat().st_mtime_ns
    again = evaluate(context(encoder), ["classification", "spectrum"], out=tmp_path, progress=False)
    assert (tmp_path / "rivals" / "untrained" / "spectrum.json").stat().st_mtime_ns == kept
    assert again["spectrum"].rivals == found["spectrum"].rivals


def test_rivals_can_be_left_out_and_added_later(encoder, tmp_path):
    without = evaluate(context(encoder), ["spectrum"], out=tmp_path, progress=False, rivals=False)["spectrum"]
    assert without.rivals == {}
    assert not (tmp_path / "rivals").exists()
    later = evaluate(context(encoder), ["spectrum"], out=tmp_path, progress=False)["spectrum"]
    assert later.scalars == without.scalars
    assert set(later.rivals) == {"pixels", "untrained"}


def test_two_runs_can_share_their_rivals(encoder, tmp_path):
    shared = tmp_path / "rivals"
    evaluate(context(encoder), ["spectrum"], out=tmp_path / "a", progress=False, rivals=shared)
    kept = (shared / "pixels" / "spectrum.json").stat().st_mtime_ns
    flat = random_encoder(encoder="tiny", size=12, method="simclr", seed=3)
    evaluate(context(flat), ["spectrum"], out=tmp_path / "b", progress=False, rivals=shared)
    assert (shared / "pixels" / "spectrum.json").stat().st_mtime_ns == kept
    assert not (tmp_path / "b" / "rivals").exists()
