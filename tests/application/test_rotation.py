"""A file's own pixels turned, in every mode and format that images come in."""

import numpy as np
import pytest
from PIL import Image

from duet.application.rotation import save_turned, turn
from duet.data.decoding import Unreadable

from .conftest import bearing, marked


@pytest.mark.parametrize("degrees", [90, 180, 270, -90, 360])
def test_quarter_turns_are_exact(degrees):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 8, 3), dtype=np.uint8))
    assert np.array_equal(np.asarray(turn(image, degrees)), np.rot90(np.asarray(image), degrees // 90))


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGB", "RGBA", "LA", "CMYK", "I", "I;16", "F", "YCbCr"])
def test_every_mode_is_turned_counter_clockwise(mode):
    image = marked(64)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    elif mode == "I":
        image = Image.fromarray(np.asarray(image).astype(np.int32) * 200)
    else:
        image = image.convert("RGB").convert(mode) if mode not in ("L", "1", "F") else image.convert(mode)
    turned = turn(image, 40)
    assert turned.size == image.size
    if mode not in ("P", "YCbCr"):
        assert turned.mode == image.mode
    grey = Image.fromarray((np.asarray(turned) / 257).astype(np.uint8)) if mode.startswith("I") else turned.convert("L")
    assert bearing(grey) == pytest.approx(40, abs=2)


@pytest.mark.parametrize("mode", ["1", "L", "F", "RGB", "CMYK", "I", "I;16", "P"])
def test_corners_that_the_image_does_not_reach_take_the_colour_of_its_edge(mode):
    pixels = np.full((40, 50), 255, np.uint8)
    pixels[12:28, 12:38] = 0
    image = Image.fromarray(pixels)
    image = Image.fromarray(pixels.astype(np.uint16)) if mode == "I;16" else image.convert(mode)
    turned = np.asarray(turn(image, 45).convert("RGB") if mode in ("CMYK", "P") else turn(image, 45))
    assert np.all(turned[[0, 0, -1, -1], [0, -1, 0, -1]] == (1 if mode == "1" else 255))
    assert np.all(turned[20, 25] == 0)


def test_where_there_is_transparency_corners_are_transparent():
    for mode in ("RGBA", "LA"):
        assert turn(Image.new(mode, (40, 40), "white"), 45).getpixel((0, 0))[-1] == 0


@pytest.mark.parametrize("degrees", [0, 90, 40, -130])
def test_expanded_nothing_is_cut(degrees):
    image = Image.new("LA", (60, 30), (200, 255))
    kept, whole = turn(image, degrees), turn(image, degrees, expand=True)
    seen = np.asarray(whole)[..., 1].sum() / 255
    assert seen == pytest.approx(60 * 30, rel=0.02)
    if degrees % 90:
        assert np.asarray(kept)[..., 1].sum() / 255 < 0.85 * seen
    else:
        assert whole.size == kept.size


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_every_format_is_kept(kind, tmp_path):
    marked(64, mode="RGB").save(tmp_path / "in", kind)
    save_turned(tmp_path / "in", tmp_path / "out", 40)
    with Image.open(tmp_path / "out") as image:
        assert image.format == kind
        assert bearing(image) == pytest.approx(40, abs=3)


def test_resolution_and_colour_profile_are_kept(tmp_path):
    marked(64, mode="RGB").save(tmp_path / "in", "JPEG", dpi=(300, 300), icc_profile=b"profile")
    save_turned(tmp_path / "in", tmp_path / "out", 40)
    with Image.open(tmp_path / "out") as image:
        assert image.info["dpi"] == (300, 300)
        assert image.info["icc_profile"] == b"profile"


def test_what_cannot_be_turned_says_why_and_writes_nothing(tmp_path, monkeypatch):
    marked(64).save(tmp_path / "in.png")
    monkeypatch.setattr(Image.Image, "save", lambda *_, **__: (_ for _ in ()).throw(OSError("no codec")))
    with pytest.raises(Unreadable, match="cannot be written as PNG: no codec"):
        save_turned(tmp_path / "in.png", tmp_path / "out.png", 40)
    assert not (tmp_path / "out.png").exists()
