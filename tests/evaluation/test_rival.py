"""Rivals: the pixels, pooled by hand, the same network without its training, and k-means on patches."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from duet.data import MemoryImages
from duet.error import DuetError
from duet.evaluation import Context, Sizes, evaluate
from duet.evaluation.patches import FittedPatches
from duet.evaluation.rival import RIVALS, patches, pixels, rivals_of, untrained
from duet.evaluation.subject import as_subject
from duet.groups import find_group
from duet.networks import build_backbone
from tests.conftest import random_encoder

SIZES = Sizes(images=6, few=4, sweep=6, copies=6, queries=2, probe=40, views=2, train=40, test=20, centroids=4)
ROT = {"rot360": find_group("rot360")}


def images(n=40, channels=1, side=12, seed=0):
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(seed))


def training(side=12, seed=0):
    return MemoryImages("made", "train", (255 * images(side=side, seed=seed)).byte(), torch.arange(40) % 4)


def context(encoder):
    train = training()
    test = MemoryImages("made", "test", (255 * images(20, seed=1)).byte(), torch.arange(20) % 4)
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


def test_who_stands_beside_a_subject_depends_on_its_network_and_on_its_images(encoder):
    assert list(rivals_of(encoder, training(), 4)) == list(RIVALS)
    assert list(rivals_of(encoder, training(side=11), 4)) == ["pixels", "untrained"]  # too small for patches
    encoder.backbone.recipe = None  # the network cannot be built anew, but its weights can be reset
    assert list(rivals_of(encoder, training(), 4)) == list(RIVALS)
    assert not torch.equal(untrained(encoder).features(images(5)), encoder.features(images(5)))
    function = as_subject(lambda x: x.flatten(1).float(), "rot360", images(2), name="function")
    assert list(rivals_of(function, training(), 4)) == ["pixels", "patches"]


def test_a_module_of_the_users_has_an_untrained_rival_whatever_seed_built_it():
    for seed in (0, 1):
        torch.manual_seed(seed)  # 0 is also the seed of the rival
        subject = as_subject(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 5)), "rot360", images(2))
        rival = rivals_of(subject, training(), 4)["untrained"]
        assert rival.digest != subject.digest
        assert not torch.allclose(rival.features(images(3)), subject.features(images(3)))


def test_an_encoder_with_the_weights_of_its_rival_gets_another_one(encoder):
    with torch.no_grad():
        for own, drawn in zip(encoder.backbone.parameters(), fresh_parameters(encoder), strict=True):
            own.copy_(drawn)
    same = untrained(encoder).digest
    with torch.no_grad():
        next(encoder.backbone.parameters()).add_(1)
    assert untrained(encoder).digest != same


def fresh_parameters(encoder):
    """What seed 0 draws for the same network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return list(build_backbone(**encoder.backbone.recipe, image_size=encoder.image_size).parameters())


def test_patches_have_four_features_a_centroid_or_as_many_as_are_wanted():
    x, own = images(9, seed=3), training()
    encode, axes = FittedPatches(own, 5).encoder(), FittedPatches(own, 5).axes()
    whole, reduced = patches(own, 5, None, ROT), patches(own, 5, 8, ROT)
    assert (whole.layout.dim, reduced.layout.dim) == (20, 8)
    torch.testing.assert_close(whole.features(x), encode(x))
    torch.testing.assert_close(reduced.features(x), axes(encode(x), 8))
    assert patches(own, 5, 64, ROT).layout.dim == 20  # no more than there are
    assert patches(own, 50, 64, ROT).layout.dim == 39  # nor than the training images span
    with pytest.raises(DuetError, match="at least 12 x 12 pixels, not 11 x 11"):
        patches(training(side=11), 5, 8, ROT)


def test_patches_are_named_by_what_they_are_fitted_on_before_they_are_fitted(monkeypatch):
    monkeypatch.setattr(FittedPatches, "encoder", None)
    told = patches(training(), 5, 8, ROT).digest
    assert told == patches(training(), 5, 8, ROT).digest
    others = [patches(training(seed=1), 5, 8, ROT), patches(training(), 6, 8, ROT), patches(training(), 5, 9, ROT)]
    others += [
        patches(training(), 5, None, ROT),
        patches(training(), 5, 20, ROT),
        patches(training(), 5, 8, ROT, seed=1),
    ]
    assert len({told, *(other.digest for other in others)}) == 7


def test_the_number_of_centroids_says_nothing_of_the_encoders_own_result(encoder, tmp_path, monkeypatch):
    few = context(encoder)
    more = replace(few, sizes=replace(SIZES, centroids=5), _cache={})
    assert few.provenance() == more.provenance()
    first = evaluate(few, ["spectrum"], out=tmp_path, progress=False)["spectrum"]
    second = evaluate(more, ["spectrum"], out=tmp_path, progress=False)["spectrum"]
    assert second.scalars == first.scalars
    assert second.rivals["pixels"] == first.rivals["pixels"]
    assert second.rivals["patches"] != first.rivals["patches"]
    monkeypatch.setattr(FittedPatches, "encoder", None)  # what is kept needs no fit
    assert evaluate(more, ["spectrum"], out=tmp_path, progress=False)["spectrum"].rivals == second.rivals


def test_rivals_stand_beside_every_result_and_are_kept(encoder, tmp_path):
    found = evaluate(context(encoder), ["classification", "spectrum"], out=tmp_path, progress=False)
    for name, result in found.items():
        assert list(result.rivals) == list(RIVALS)
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
    assert set(later.rivals) == set(RIVALS)


def test_two_runs_can_share_their_rivals(encoder, tmp_path):
    shared = tmp_path / "rivals"
    evaluate(context(encoder), ["spectrum"], out=tmp_path / "a", progress=False, rivals=shared)
    kept = (shared / "pixels" / "spectrum.json").stat().st_mtime_ns
    flat = random_encoder(encoder="tiny", size=12, method="simclr", seed=3)
    evaluate(context(flat), ["spectrum"], out=tmp_path / "b", progress=False, rivals=shared)
    assert (shared / "pixels" / "spectrum.json").stat().st_mtime_ns == kept
    assert not (tmp_path / "b" / "rivals").exists()
