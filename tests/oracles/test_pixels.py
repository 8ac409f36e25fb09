"""The pixels against Pillow, SciPy, colorsys and slow loops."""

import colorsys
import math

import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image, ImageEnhance, ImageFilter

from duet import GROUPS
from duet.groups import Blur
from duet.groups.affine import fuse, resample
from duet.groups.geometric import Scale


def photograph(height=48, width=48, seed=0):
    """A smooth, colourful image with some texture, as uint8 (H,W,3)."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((6, 6, 3)).astype(np.float32)
    fine = rng.random((height, width, 3)).astype(np.float32)
    big = np.stack(
        [
            np.asarray(Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC))
            for c in range(3)
        ],
        axis=-1,
    )
    return (255 * np.clip(0.9 * big + 0.1 * fine, 0, 1)).round().astype(np.uint8)


def tensor(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None].float() / 255


def difference(ours, pillow):
    """Mean absolute difference, in steps of 1/255."""
    return 255 * float((ours - tensor(pillow)).abs().mean())


def disc(height, width, margin=1.5):
    y, x = np.mgrid[:height, :width]
    radius = min(height, width) / 2 - margin
    return torch.from_numpy((y - (height - 1) / 2) ** 2 + (x - (width - 1) / 2) ** 2 <= radius**2)


def apply(name, image, g):
    return GROUPS[name].apply(tensor(image), torch.tensor([g]))


@pytest.mark.parametrize("degrees", [-170, -90, -33.3, 0, 10, 45, 90, 121, 180])
def test_rotation_is_pillows(degrees):
    image = photograph()
    ours = apply("rot360", image, float(GROUPS["rot360"].from_parameter(degrees)))
    theirs = tensor(Image.fromarray(image).rotate(degrees, Image.Resampling.BILINEAR))
    inside = disc(48, 48)
    assert 255 * float((ours - theirs).abs()[..., inside].mean()) < 2


@pytest.mark.parametrize("size", [(48, 48), (40, 56)])
@pytest.mark.parametrize("degrees", [30, -75, 160])
def test_rotation_is_scipys(degrees, size):
    image = photograph(*size)
    ours = apply("rot360", image, float(GROUPS["rot360"].from_parameter(degrees)))
    # SciPy turns the first axis towards the second: from y (down) to x, which looks counter-clockwise too.
    theirs = scipy.ndimage.rotate(image.astype(np.float64) / 255, degrees, reshape=False, order=1)
    inside = disc(*size)
    assert 255 * float((ours - torch.from_numpy(theirs).permute(2, 0, 1)).abs()[..., inside].mean()) < 2


def test_turns_are_counter_clockwise():
    images = torch.zeros(1, 1, 9, 9)
    images[0, 0, 4, 8] = 1  # right of the centre
    turned = GROUPS["rot360"].apply(images, GROUPS["rot360"].from_parameter(torch.tensor([90.0])))
    assert turned[0, 0, 0, 4] == 1  # above it


@pytest.mark.parametrize("side", [8, 28, 31, 32, 57])
@pytest.mark.parametrize("name", ["rot4", "rot360"])
def test_quarter_turns_move_pixels_exactly(name, side):
    images = torch.rand(4, 3, side, side)
    g = GROUPS[name].from_parameter(torch.tensor([0.0, 90.0, 180.0, -90.0 if name == "rot360" else 270.0]))
    for batch_g in (g, torch.cat([g[:3], torch.tensor([0.71])])):  # also beside a sample that is interpolated
        turned = GROUPS[name].apply(images, batch_g)
        for quarters, degrees in enumerate(batch_g[:3]):
            assert (turned[quarters] - torch.rot90(images[quarters], quarters, (1, 2))).abs().max() < 1e-6, degrees
    assert (GROUPS[name].apply(images, g)[3] - torch.rot90(images[3], 3, (1, 2))).abs().max() < 1e-6


def test_quarter_turns_of_an_oblong_image_turn_about_the_centre():
    images = torch.rand(1, 1, 6, 10) + 0.01
    turned = GROUPS["rot4"].apply(images.clamp(max=1), torch.tensor([0.375]))
    middle = torch.rot90(images.clamp(max=1)[0, 0, :, 2:8], 1, (0, 1))
    assert torch.allclose(turned[0, 0, :, 2:8], middle, atol=1e-5)
    assert turned[..., :2].abs().max() == 0
    assert turned[..., 8:].abs().max() == 0


@pytest.mark.parametrize(("name", "dim"), [("hflip", 3), ("vflip", 2)])
def test_flips_move_pixels_exactly(name, dim):
    images = torch.rand(3, 3, 7, 12)
    flipped = GROUPS[name].apply(images, torch.tensor([0.75, 0.25, 0.5]))
    assert (flipped[0] - images[0].flip(dim - 1)).abs().max() < 1e-6
    assert torch.equal(flipped[1], images[1])
    assert torch.allclose(flipped[2], (images[2] + images[2].flip(dim - 1)) / 2, atol=1e-6)


@pytest.mark.parametrize("g", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(
    ("name", "enhancer"),
    [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast), ("saturation", ImageEnhance.Color)],
)
def test_enhancement_is_pillows(name, enhancer, g):
    for seed in range(3):
        image = photograph(seed=seed)
        theirs = enhancer(Image.fromarray(image)).enhance(float(GROUPS[name].parameter(g)))
        assert difference(apply(name, image, g), theirs) < 2


def test_grayscale_is_pillows():
    image = photograph()
    theirs = Image.fromarray(image).convert("L").convert("RGB")
    assert difference(apply("grayscale", image, 1.0), theirs) < 2


@pytest.mark.parametrize("g", [0.0, 0.25, 0.75, 1.0])
def test_hue_is_pillows(g):
    for seed in range(3):
        image = photograph(seed=seed)
        hsv = np.array(Image.fromarray(image).convert("HSV"))
        hsv[..., 0] = (hsv[..., 0].astype(int) + round(255 * float(GROUPS["hue"].parameter(g)))) % 256
        theirs = Image.fromarray(hsv, "HSV").convert("RGB")
        assert difference(apply("hue", image, g), theirs) < 2


def test_hue_is_colorsyss_pixel_by_pixel():
    corners = [[r, g, b] for r in (0, 0.5, 1) for g in (0, 0.5, 1) for b in (0, 0.5, 1)]
    pixels = torch.cat([torch.tensor(corners), torch.rand(200, 3, generator=torch.Generator().manual_seed(0))])
    for g in (0.0, 0.3, 0.5, 1.0):
        ours = GROUPS["hue"].apply(pixels.T.reshape(1, 3, 1, -1), torch.tensor([g]))[0, :, 0].T
        for pixel, changed in zip(pixels.tolist(), ours.tolist(), strict=True):
            h, s, v = colorsys.rgb_to_hsv(*pixel)
            expected = colorsys.hsv_to_rgb((h + float(GROUPS["hue"].parameter(g))) % 1, s, v)
            assert changed == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("g", [0.0, 0.25, 0.5, 0.8, 1.0])
def test_centred_crop_is_pillows(g):
    image = photograph()
    width = float(GROUPS["scale"].parameter(g))
    low, high = 48 * (1 - width) / 2, 48 * (1 + width) / 2
    theirs = Image.fromarray(image).resize((48, 48), Image.Resampling.BILINEAR, box=(low, low, high, high))
    assert difference(apply("scale", image, g), theirs) < 2


@pytest.mark.parametrize("seed", range(8))
def test_drawn_crop_is_pillows(seed):
    image = photograph(40, 56, seed)
    images, g = tensor(image), torch.tensor([0.5])
    affine = Scale().affine(g, (40, 56), torch.Generator().manual_seed(seed))
    w, _, x, _, h, y = affine.matrix.flatten().tolist()
    if seed < 4:  # push the window into a corner
        x, y = (1 - w) * (-1) ** seed, (1 - h) * (-1) ** (seed // 2)
        affine.matrix[0, 0, 2], affine.matrix[0, 1, 2] = x, y
    box = (28 * (1 + x - w), 20 * (1 + y - h), 28 * (1 + x + w), 20 * (1 + y + h))
    box = tuple(min(max(v, 0), m) for v, m in zip(box, (56, 40, 56, 40), strict=True))
    theirs = Image.fromarray(image).resize((56, 40), Image.Resampling.BILINEAR, box=box)
    assert difference(resample(images, fuse([affine]), (40, 56)), theirs) < 2


def test_a_smaller_output_averages_what_it_skips():
    image = photograph(64, 64)
    ours = resample(tensor(image), fuse([Scale().affine(torch.ones(1), (16, 16))]), (16, 16))
    theirs = Image.fromarray(image).resize((16, 16), Image.Resampling.BOX)
    assert difference(ours, theirs) < 1


@pytest.mark.parametrize("g", [0.0, 0.3, 1.0])
def test_blur_is_a_slow_loop(g):
    image = photograph(9, 11)
    sigma = float(Blur().parameter(g))
    side = math.exp(-0.5 / sigma**2)
    kernel = np.array([side, 1, side]) / (1 + 2 * side)
    padded = np.pad(image.astype(np.float64) / 255, ((1, 1), (1, 1), (0, 0)), mode="reflect")
    expected = np.zeros((9, 11, 3))
    for i in range(3):
        for j in range(3):
            expected += kernel[i] * kernel[j] * padded[i : i + 9, j : j + 11]
    ours = Blur().apply(tensor(image), torch.tensor([g]))[0].permute(1, 2, 0)
    assert np.abs(ours.numpy() - expected).max() < 1e-5


def test_blur_looks_like_pillows():
    image = photograph()
    kernel = ImageFilter.Kernel((3, 3), [1] * 9)  # sigma 2 is nearly flat
    theirs = np.asarray(Image.fromarray(image).filter(kernel))[2:-2, 2:-2]
    ours = Blur().apply(tensor(image), torch.tensor([1.0]))[..., 2:-2, 2:-2]
    assert difference(ours, theirs) < 2
