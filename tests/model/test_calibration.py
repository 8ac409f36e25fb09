"""Fitting a confidence: what is read right becomes probable, what is of another kind becomes strange."""

import pytest
import torch

from duet.data import MemoryImages
from duet.model import Confidence, calibration, fit_confidence
from duet.model.calibration import MOST_VIEWS, VIEWS
from tests.conftest import make_compass, random_encoder

from ..application.conftest import marked


def noise(n=60, seed=0, channels=1):
    pixels = torch.rand(n, channels, 28, 28, generator=torch.Generator().manual_seed(seed))
    return MemoryImages("noise", "train", (255 * pixels).byte())


def spots(n, seed=0, blank=False):
    """Images with a spot straight above the centre, at several distances: upright; or half of them blank."""
    import numpy as np

    places = np.random.default_rng(seed).uniform(0.4, 0.6, n)
    pixels = torch.stack([torch.from_numpy(np.array(marked(28, at=float(at)))) for at in places])
    pixels[::2] *= not blank
    return MemoryImages("spots", "train", pixels.unsqueeze(1))


def test_what_is_always_read_right_is_probable():
    encoder = make_compass()
    encoder.add_confidence(fit_confidence(encoder, spots(100), spots(100, seed=1)))
    reading = encoder.recover(encoder.features(spots(50, seed=2).tensors()[0]))
    assert float(reading.probability.min()) > 0.98
    assert bool(reading.known.float().mean() > 0.8)
    assert torch.equal(reading.sure, reading.known)
    assert reading.words(0)[0] == "0°"


def test_what_cannot_be_read_is_not_probable():
    """Half of the images are blank, and read right by luck alone: one in four."""
    encoder = make_compass()
    encoder.add_confidence(fit_confidence(encoder, spots(100, blank=True), spots(100, seed=1, blank=True)))
    pixels = spots(50, seed=2, blank=True).tensors()[0]
    reading = encoder.recover(encoder.features(pixels))
    assert float(reading.probability[::2].max()) < 0.4
    assert float(reading.probability[1::2].min()) > 0.98
    assert not bool(reading.sure[::2].any())
    assert set(reading.words()[::2]) == {"unknown"}


def test_the_same_seed_gives_the_same_confidence():
    encoder = random_encoder()
    first, again, other = (fit_confidence(encoder, noise(), noise(seed=1), seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["mean"], other["mean"])


@pytest.mark.parametrize("changes", [{"reference": "relative"}, {"method": "simclr"}])
def test_without_a_truth_there_is_none(changes):
    assert fit_confidence(random_encoder(**changes), noise(), noise(seed=1)) is None


def test_every_axis_has_its_own_curve():
    encoder = random_encoder(group=["rot360", "scale"], layout="joint", bins=4)
    found = fit_confidence(encoder, noise(), noise(seed=1))
    assert isinstance(found, Confidence)
    assert found.axes == ("rot360", "scale")
    assert found.to_dict()["rot360"]["within"] == 1 / 8
    assert found.to_dict()["scale"]["within"] < 1 / 8
    encoder.add_confidence(found)
    z = encoder.features(noise(seed=2).tensors()[0])
    for axis in encoder.layout.axes:
        reading = encoder.recover(z, axis)
        assert float(reading.probability.max()) < 0.7
        assert float(reading.known.float().mean()) > 0.5


def test_views_are_many_for_few_images_and_never_too_many():
    encoder = random_encoder()
    counted = []
    real = encoder.features
    encoder.features = lambda images: counted.append(len(images)) or real(images)
    fit_confidence(encoder, noise(40), noise(30, seed=1))
    assert sum(counted) == 70 * VIEWS + 70
    assert VIEWS * 70 <= 2 * MOST_VIEWS


def test_images_as_they_are_count_as_known(monkeypatch):
    """Noise is blurred by every turn but a quarter one: no view is like the image itself."""
    encoder, given = random_encoder(), []
    real = Confidence.fit
    monkeypatch.setattr(Confidence, "fit", lambda *arguments: given.append(arguments) or real(*arguments))
    found = fit_confidence(encoder, noise(200), noise(100, seed=1))
    fresh = found.strangeness(encoder.features(noise(200, seed=3).tensors()[0]))
    assert float((fresh <= 1).float().mean()) > 0.8
    (trained, held, _), untouched = given[0], encoder.features(noise(200).tensors()[0])
    same = torch.cdist(trained.double(), untouched.double()).amin(1) < 1e-6
    assert float(same.float().mean()) == pytest.approx(1 / 3, abs=0.02)
    assert [len(kind) for kind in held] == [100, 100 * VIEWS]


def test_quarter_turns_of_a_model_that_looks_at_all_four_need_no_further_pass():
    """Their features are those of the image, rolled: every image goes through the network once."""
    encoder = random_encoder(group=["rot4"], bins=8)
    encoder.turns, counted, real = 4, [], encoder.features
    encoder.features = lambda images: counted.append(len(images)) or real(images)
    found = fit_confidence(encoder, noise(40), noise(30, seed=1))
    assert sum(counted) == 70
    assert found.axes == ("rot4",)
    pixels = noise(8).tensors()[0].float() / 255
    (axis,), z = encoder.layout.axes, real(pixels)
    views = calibration._rolled(encoder, axis, z, torch.Generator().manual_seed(1))
    assert len(set(views.g.tolist())) > 2
    assert torch.allclose(views.z, real(encoder.groups["rot4"].apply(pixels, views.g)), atol=1e-5)


def test_the_errors_of_an_exact_reading_are_small():
    encoder = make_compass()
    found = fit_confidence(encoder, spots(100), spots(100, seed=1))
    few = torch.zeros(1)
    assert float(found.errors["rot360"].below(few, torch.tensor([5 / 360]))) > 0.9
    assert float(found.errors["rot360"].below(few, torch.tensor([0.0]))) < 0.5
