"""Every odd image becomes upright 8-bit pixels, and every broken one a short reason."""

import contextlib
import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from conftest import encoded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from duet.data import decoding
from duet.data.decoding import Unreadable, decode, measure, quiet, thumbnail


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claimed_png(width, height):
    """A PNG whose header promises any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 64)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in chunks)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
def test_lossless_formats_keep_every_pixel(picture, kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    pixels = decode(encoded(picture, kind, **options), 3)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, np.asarray(picture).transpose(2, 0, 1))


def test_paths_images_and_arrays_decode_like_bytes(picture, tmp_path):
    (tmp_path / "picture.png").write_bytes(encoded(picture))
    expected = decode(encoded(picture), 3)
    for form in (tmp_path / "picture.png", picture, np.asarray(picture), np.asarray(picture).astype(np.int64)):
        assert np.array_equal(decode(form, 3), expected)


def test_one_channel_is_pillows_luma(picture):
    assert np.array_equal(decode(encoded(picture), 1)[0], np.asarray(picture.convert("L")))


def test_grey_images_become_three_equal_channels(picture):
    pixels = decode(encoded(picture.convert("L")), 3)
    assert (pixels == pixels[:1]).all()


def test_cmyk_keeps_its_colours(picture):
    pixels = decode(encoded(picture.convert("CMYK"), "TIFF"), 3)
    assert np.abs(pixels.astype(int) - np.asarray(picture).transpose(2, 0, 1)).max() <= 1


def test_palette_keeps_its_colours(picture):
    quantised = picture.quantize(64)
    assert np.array_equal(decode(encoded(quantised), 3), np.asarray(quantised.convert("RGB")).transpose(2, 0, 1))


def test_sixteen_bits_are_scaled_not_clipped():
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    pixels = decode(encoded(Image.fromarray(values)), 1)[0]
    assert np.array_equal(pixels, np.rint(values / 257).astype(np.uint8))


def test_floats_are_read_as_shares_or_as_levels():
    shares = Image.fromarray(np.array([[0.0, 0.5, 1.0, np.nan]], dtype=np.float32))
    levels = Image.fromarray(np.array([[0.0, 127.0, 300.0]], dtype=np.float32))
    assert decode(encoded(shares, "TIFF"), 1)[0].tolist() == [[0, 128, 255, 0]]
    assert decode(encoded(levels, "TIFF"), 1)[0].tolist() == [[0, 127, 255]]


def test_transparency_is_laid_over_black():
    image = Image.new("RGBA", (4, 4), (200, 100, 50, 0))
    image.putpixel((0, 0), (200, 100, 50, 255))
    image.putpixel((1, 0), (200, 100, 50, 128))
    pixels = decode(encoded(image), 3)
    assert pixels[:, 0, 0].tolist() == [200, 100, 50]
    assert pixels[:, 0, 1].tolist() == [100, 50, 25]
    assert not pixels[:, 1:].any()


def test_a_transparent_palette_entry_is_black():
    image = Image.new("P", (2, 1))
    image.putpalette([255, 255, 255, 10, 20, 30])
    image.putpixel((1, 0), 1)
    assert decode(encoded(image, transparency=0), 3)[:, 0].T.tolist() == [[0, 0, 0], [10, 20, 30]]


def test_an_animation_is_its_first_frame():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue")]
    pixels = decode(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), 3)
    assert pixels[:, 0, 0].tolist() == [255, 0, 0]


def test_the_camera_orientation_is_applied(picture):
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(picture, exif=exif)
    upright = picture.transpose(Image.Transpose.ROTATE_270)
    assert np.array_equal(decode(data, 3), np.asarray(upright).transpose(2, 0, 1))
    assert measure(data) == (60, 40)
    assert measure(encoded(picture, "TIFF", exif=exif)) == (60, 40)
    assert measure(encoded(picture)) == (40, 60)


def test_a_thumbnail_is_upright_whole_and_in_colour(picture, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.convert("L").save(tmp_path / "photo.jpg", exif=exif)
    small = thumbnail(tmp_path / "photo.jpg", 30)
    assert (small.mode, small.size) == ("RGB", (20, 30))


@pytest.mark.parametrize("brand", [b"heic", b"mif1"])
def test_a_heic_photo_says_what_to_install(brand, tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "_formats", lambda: ("JPEG", "PNG"))  # as if there were no reader
    data = b"\0\0\0\x18ftyp" + brand + b"\0" * 20
    (tmp_path / "photo.heic").write_bytes(data)
    for photo in (data, tmp_path / "photo.heic"):
        with pytest.raises(Unreadable, match="pip install pillow-heif"):
            decode(photo, 3)


def test_heic_photos_are_read_where_there_is_a_reader(tmp_path):
    heif = pytest.importorskip("pillow_heif", reason="no reader of HEIC: pip install pillow-heif")
    heif.register_heif_opener()
    picture = Image.linear_gradient("L").convert("RGB")
    picture.save(tmp_path / "photo.heic", quality=95)
    pixels = decode(tmp_path / "photo.heic", 3)
    assert np.abs(pixels.astype(int) - np.asarray(picture).transpose(2, 0, 1)).max() < 12


def test_resizing_takes_the_centre_square(picture):
    pixels = decode(encoded(picture), 3, image_size=40)
    assert np.array_equal(pixels, np.asarray(picture)[:, 10:50].transpose(2, 0, 1))
    small = decode(encoded(picture), 3, image_size=10)
    crop = picture.crop((10, 0, 50, 40)).resize((10, 10), Image.Resampling.BICUBIC)
    assert np.array_equal(small, np.asarray(crop).transpose(2, 0, 1))


def test_shrinking_is_antialiased():
    stripes = np.zeros((64, 64), dtype=np.uint8)
    stripes[:, ::2] = 255
    pixels = decode(encoded(Image.fromarray(stripes)), 1, image_size=8)
    assert np.abs(pixels.astype(int) - 127).max() <= 8


def test_a_large_jpeg_shrinks_to_what_full_decoding_gives():
    coarse = np.random.default_rng(0).integers(40, 216, (16, 24, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(coarse).resize((240, 160), Image.Resampling.BICUBIC), "JPEG", quality=95)
    full = Image.open(io.BytesIO(data)).crop((40, 0, 200, 160)).resize((32, 32), Image.Resampling.BICUBIC)
    difference = np.abs(decode(data, 3, image_size=32).astype(int) - np.asarray(full).transpose(2, 0, 1))
    assert difference.mean() < 1
    assert difference.max() <= 6


def test_enlarging_works():
    assert decode(encoded(Image.new("RGB", (3, 5), "red")), 3, image_size=16).shape == (3, 16, 16)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"hello, I am a text", "not an image of a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "not an image of a known format"),
        (np.zeros((4, 4, 3), dtype=np.float32), "expected integers"),
        (np.full((4, 4), 256), "outside 0 to 255"),
        (np.zeros((2, 2, 2, 2), dtype=np.uint8), "expected integers"),
    ],
)
def test_what_is_no_image_says_why(data, reason):
    with pytest.raises(Unreadable, match=reason):
        decode(data, 3)


def test_empty_and_missing_files_say_why(tmp_path):
    (tmp_path / "empty.png").touch()
    with pytest.raises(Unreadable, match="empty file"):
        decode(tmp_path / "empty.png", 3)
    with pytest.raises(Unreadable, match="file not found"):
        decode(tmp_path / "missing.png", 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_truncated_image_is_unreadable(picture, kind):
    data = encoded(picture, kind)
    with pytest.raises(Unreadable):
        decode(data[: len(data) // 2], 3)


@pytest.mark.parametrize("size", [(10_000, 10_000), (60_000, 60_000)])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(size):
    with quiet(), pytest.raises(Unreadable, match="too many pixels"):
        decode(claimed_png(*size), 3, image_size=8)
    with quiet(), pytest.raises(Unreadable, match="too many pixels"):
        measure(claimed_png(*size))


def test_a_wrong_extension_does_not_matter(picture, tmp_path):
    (tmp_path / "really.jpg").write_bytes(encoded(picture, "PNG"))
    assert decode(tmp_path / "really.jpg", 3).shape == (3, 40, 60)


def test_quiet_leaves_the_filters_as_they_were():
    before = list(warnings.filters)
    with quiet():
        warnings.warn("odd file", stacklevel=1)
    assert warnings.filters == before


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), kind=st.sampled_from(["PNG", "JPEG", "GIF", "TIFF"]))
def test_a_damaged_byte_never_escapes_as_another_error(picture, position, value, kind):
    data = bytearray(encoded(picture, kind))
    data[position % len(data)] = value
    with quiet(), contextlib.suppress(Unreadable):
        assert decode(bytes(data), 3, image_size=8).shape == (3, 8, 8)
