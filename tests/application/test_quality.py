"""What is turned is encoded as it was: JPEG's tables, lossless WebP, facts beside the pixels."""

import numpy as np
import pytest
from PIL import Image, ImageFilter
from PIL.JpegImagePlugin import get_sampling

from duet.application.quality import encoding_of
from duet.application.rotation import save_turned


def smooth(size=(64, 48)):
    """Colours that change slowly, as in a photo."""
    return Image.effect_noise(size, 90).convert("RGB").filter(ImageFilter.GaussianBlur(3))


def transposed(table):
    return np.array(table).reshape(8, 8).T.reshape(-1).tolist()


@pytest.mark.parametrize("quality", [30, 75, 97])
@pytest.mark.parametrize("degrees", [20, 90, 180, -90])
def test_the_tables_of_a_jpeg_are_kept(quality, degrees, tmp_path):
    smooth().save(tmp_path / "in", "JPEG", quality=quality)
    save_turned(tmp_path / "in", tmp_path / "out", degrees)
    with Image.open(tmp_path / "in") as before, Image.open(tmp_path / "out") as after:
        sideways = degrees % 180 == 90
        for key, table in before.quantization.items():
            assert list(after.quantization[key]) == (transposed(table) if sideways else list(table))


def test_quarter_turns_of_a_jpeg_lose_next_to_nothing(tmp_path):
    """Whole blocks, all colours: what is left are the roundings of Pillow's pixels. Other tables lose far more."""
    smooth().save(tmp_path / "in", "JPEG", quality=60, subsampling=0)
    save_turned(tmp_path / "in", tmp_path / "out", 90)
    with Image.open(tmp_path / "in") as before, Image.open(tmp_path / "out") as after:
        pixels = np.rot90(np.asarray(before)).astype(int)
        loss = np.abs(np.asarray(after).astype(int) - pixels)
        tables = list(before.quantization.values())
    assert loss.max() <= 3
    Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "other", "JPEG", qtables=tables, subsampling=0)
    with Image.open(tmp_path / "other") as other:
        assert np.abs(np.asarray(other).astype(int) - pixels).mean() > 2 * loss.mean()


@pytest.mark.parametrize(("subsampling", "degrees", "expected"), [(0, 90, 0), (1, 180, 1), (1, 90, 0), (2, 90, 2)])
def test_colours_are_sampled_as_before_or_better(subsampling, degrees, expected, tmp_path):
    smooth().save(tmp_path / "in", "JPEG", subsampling=subsampling, progressive=True)
    save_turned(tmp_path / "in", tmp_path / "out", degrees)
    with Image.open(tmp_path / "out") as image:
        assert get_sampling(image) == expected
        assert image.info["progressive"]


def test_a_camera_on_its_side_counts(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    smooth().save(tmp_path / "in", "JPEG", quality=50, exif=exif)
    with Image.open(tmp_path / "in") as image:
        table = list(image.quantization[0])
    assert list(encoding_of(tmp_path / "in", sideways=True)["qtables"][0]) == table
    assert list(encoding_of(tmp_path / "in", sideways=False)["qtables"][0]) == transposed(table)


def test_grey_jpegs_are_turned(tmp_path):
    smooth().convert("L").save(tmp_path / "in", "JPEG", quality=80)
    save_turned(tmp_path / "in", tmp_path / "out", 90)
    with Image.open(tmp_path / "out") as image:
        assert (image.mode, image.size) == ("L", (48, 64))


@pytest.mark.parametrize("lossless", [True, False])
def test_lossless_webp_stays_that(lossless, tmp_path):
    smooth().save(tmp_path / "in", "WEBP", lossless=lossless, exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0")
    save_turned(tmp_path / "in", tmp_path / "out", 90)
    with Image.open(tmp_path / "in") as before, Image.open(tmp_path / "out") as after:
        assert np.array_equal(np.asarray(after), np.rot90(np.asarray(before))) == lossless
