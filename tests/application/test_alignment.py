"""duet.align: turned copies come back, sets stay apart, any encoder will do."""

import numpy as np
import pytest
import torch

import duet
from duet.application.mean_image import draw_means, mean_images
from duet.error import DuetError
from duet.groups import GROUPS, rot360
from duet.model import orbit_views, spectrum_of
from tests.conftest import make_compass, random_encoder

DISC = rot360("circle")
SHAPES = torch.zeros(2, 1, 32, 32)
SHAPES[0, 0, 4:16, 14:18] = 1
SHAPES[0, 0, 14:18, 14:24] = 0.6
SHAPES[1, 0, 8:12, 8:26] = 0.8
SHAPES[1, 0, 20:26, 8:14] = 1


def small(images):
    """Features that have learned nothing: the pixels in 8 x 8 cells."""
    return torch.nn.functional.adaptive_avg_pool2d(images.float(), 8).flatten(1)


def turned_copies(image, n, seed=0):
    g = torch.rand(n, generator=torch.Generator().manual_seed(seed))
    return DISC.apply(image.expand(n, -1, -1, -1), g), g - DISC.identity


def spread(found, wanted):
    """Errors in degrees, whatever the common angle."""
    away = found.double() - wanted.double()
    centre = torch.angle(torch.polar(torch.ones_like(away), 2 * torch.pi * away).sum()) / (2 * torch.pi)
    away = away - centre
    return 360 * (away - away.round()).abs()


def test_turned_copies_of_one_image_come_back_to_two_degrees():
    images, by = turned_copies(SHAPES[0], 24)
    found = duet.align(images, small, "rot360")
    assert spread(found.by, by).max() < 2
    assert found.probability.min() > 0.95
    assert found.unit == "degrees"
    assert torch.allclose(found.value, 360 * found.by)
    assert found.coherence[None] > 0.8


def test_turning_by_minus_the_angle_makes_the_images_one():
    images, _ = turned_copies(SHAPES[0], 24)
    found = duet.align(images, small, "rot360")
    means = mean_images(images, found)
    assert means.fall > 0.85
    turned = found.turned(images)
    assert torch.allclose(turned.mean(0), means.after, atol=1e-5)
    assert turned.var(0, unbiased=False).sum() == pytest.approx(means.variance_after, rel=1e-4)
    wrong = duet.application.Alignment(found.group, -found.by, found.probability, found.coherence)
    assert mean_images(images, wrong).fall < 0.3


def test_blur_alone_is_no_fall_of_the_variance():
    noise = torch.rand(40, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    by = torch.rand(40, generator=torch.Generator().manual_seed(2)) - 0.5
    random = duet.application.Alignment(DISC, by, torch.ones(40), {})
    assert abs(mean_images(noise, random).fall) < 0.05


def test_each_set_has_an_angle_of_its_own():
    first, by_first = turned_copies(SHAPES[0], 12)
    second, by_second = turned_copies(SHAPES[1], 12, seed=1)
    sets = ["a"] * 12 + ["b"] * 12 + ["alone"]
    found = duet.align(torch.cat([first, second, first[:1]]), small, "rot360", sets=sets)
    assert spread(found.by[:12], by_first).max() < 3
    assert spread(found.by[12:24], by_second).max() < 3
    assert set(found.coherence) == {"a", "b"}
    assert found.by[24] == 0
    assert found.probability[24] == pytest.approx(0.25)  # chance


def test_quarter_turns_take_elements():
    group = GROUPS["rot4"]
    g = group.sample(16, torch.Generator().manual_seed(0))
    found = duet.align(group.apply(SHAPES[0].expand(16, -1, -1, -1), g), small, "rot4")
    assert spread(found.by, g).max() < 1e-3
    assert set(found.value.tolist()) <= {-90.0, 0.0, 90.0, 180.0}
    assert found.probability.min() > 0.9


def test_two_images_are_enough():
    images, by = turned_copies(SHAPES[0], 2)
    assert spread(duet.align(images, small, "rot360").by, by).max() < 3


def test_a_spectrum_can_be_given(monkeypatch):
    encoder = random_encoder()
    images, by = turned_copies(SHAPES[0][:, 2:-2, 2:-2], 10)
    given = spectrum_of(orbit_views(encoder.features, images, DISC, 40), DISC)
    fitted = duet.align(images, encoder)
    monkeypatch.setattr("duet.application.alignment._fit", None)  # not called
    found = duet.align(images, encoder, spectrum=given)
    assert found.group.name == "rot360"
    for one in (found, fitted):
        assert spread(one.by, by).median() < 3


def test_a_model_that_knows_differences_only_will_do():
    images, by = turned_copies(SHAPES[0][:, 2:-2, 2:-2], 20)
    found = duet.align(images, make_compass(reference="relative"))
    assert spread(found.by, by).max() < 8


def test_the_same_images_give_the_same_angles():
    images, _ = turned_copies(SHAPES[1], 9)
    first, second = (duet.align(images, small, "rot360") for _ in range(2))
    assert torch.equal(first.by, second.by)
    assert torch.equal(first.probability, second.probability)


def test_the_picture_has_a_column_a_set():
    images, _ = turned_copies(SHAPES[0], 6)
    means = mean_images(
        images, duet.align(images, small, "rot360"), "a long name of crabs \N{GREEK SMALL LETTER ALPHA}"
    )
    one, three, many = (draw_means([means] * n) for n in (1, 3, 12))
    assert three.width > 2 * one.width
    assert three.height == one.height
    assert many.height > 1.5 * one.height
    pixels = torch.from_numpy(np.array(one)).float().mean(-1)
    side = 4 * 32  # at least 112 pixels
    before, after = (pixels[8 + 14 + down : 8 + 14 + down + side, 8 : 8 + side] for down in (0, side + 14))
    assert after.max() > before.max() + 20  # what was smeared over a ring became a shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: duet.align(x, small, "grayscale"), "is no group that turns"),
        (lambda x: duet.align(x, small, "scale"), "is no group that turns"),
        (lambda x: duet.align(x, small), "say what the images are turned by"),
        (lambda x: duet.align(x, random_encoder(group=["scale"])), "has no group that turns"),
        (lambda x: duet.align(x[:1], small, "rot360"), "at least 2 images"),
        (lambda x: duet.align(x[:2], small, "rot360", sets=["a", "b"]), "at least 2 images of a set"),
        (lambda x: duet.align(x, small, "rot360", sets=["a"]), "1 names of sets for 6 images"),
        (lambda x: duet.align(x, small, "rot360", turns=0), "turns start at 1"),
        (lambda x: duet.align(list(x), small, "rot360"), "give them as a tensor"),
        (lambda x: duet.align(torch.zeros(6, 1, 32, 32), small, "rot360"), "do not turn"),
        (lambda x: duet.align([], random_encoder()), "at least 2 images"),
    ],
)
def test_mistakes_are_one_line(call, message):
    images, _ = turned_copies(SHAPES[0], 6)
    with pytest.raises(DuetError, match=message) as caught:
        call(images)
    assert "\n" not in str(caught.value)


def test_a_models_own_turns_are_not_taken_once_more():
    images = torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    plain, looking = random_encoder(corners="circle"), random_encoder(corners="circle")
    looking.turns = 4
    assert torch.equal(duet.align(images, looking).by, duet.align(images, plain).by)
    assert looking.turns == 4
