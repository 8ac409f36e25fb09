"""The orientation tag of files: what is seen turns, the bytes of the image stay."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from duet.application.tag import save_tagged, webp_chunks
from duet.data.decoding import Unreadable

from .test_exif import MAKER, ORIENTATION

KINDS = {
    "jpeg": ("JPEG", {"quality": 90}),
    "progressive": ("JPEG", {"progressive": True}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {"quality": 80}),
    "lossless": ("WEBP", {"lossless": True}),
    "tiff": ("TIFF", {"compression": "tiff_lzw"}),
}


def noise(mode="RGB"):
    channels = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(0).integers(0, 256, (21, 34, channels), dtype=np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


def image_bytes(kind, data):
    """The part of a file that holds the pixels, by a reading of our own."""
    if kind == "JPEG":
        return data[data.index(b"\xff\xda") :]
    if kind == "PNG":
        return data[data.index(b"IDAT") - 4 :]
    if kind == "WEBP":
        return [content for name, content in webp_chunks(data) if name in (b"VP8 ", b"VP8L", b"ALPH")]
    with Image.open(io.BytesIO(data)) as image:
        start, length = image.tag_v2[273][0], image.tag_v2[279][0]
        return data[start : start + length]


def seen(path):
    with Image.open(path) as image:
        return np.asarray(ImageOps.exif_transpose(image))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("had", [None, 1, 6, 7])
@pytest.mark.parametrize("degrees", [90, -180, 270])
def test_what_is_seen_turns_and_no_pixel_is_touched(name, had, degrees, tmp_path):
    kind, options = KINDS[name]
    exif = Image.Exif()
    exif[MAKER] = "maker"
    if had is not None:
        exif[ORIENTATION] = had
    noise().save(tmp_path / "in", kind, exif=exif, **options)
    save_tagged(tmp_path / "in", tmp_path / "out", degrees)
    before, after = ((tmp_path / name).read_bytes() for name in ("in", "out"))
    assert before != after
    assert image_bytes(kind, after) == image_bytes(kind, before)
    assert np.array_equal(seen(tmp_path / "out"), np.rot90(seen(tmp_path / "in"), degrees // 90))
    with Image.open(tmp_path / "out") as image:
        assert image.getexif()[MAKER] == "maker"


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name, (kind, _) in KINDS.items()
        for mode in ("L", "RGB", "RGBA")
        if (kind, mode) != ("JPEG", "RGBA")  # which has no transparency
    ],
)
def test_files_without_any_camera_data_get_some(name, mode, tmp_path):
    kind, options = KINDS[name]
    noise(mode).save(tmp_path / "in", kind, **options)
    save_tagged(tmp_path / "in", tmp_path / "out", 90)
    assert image_bytes(kind, (tmp_path / "out").read_bytes()) == image_bytes(kind, (tmp_path / "in").read_bytes())
    assert np.array_equal(seen(tmp_path / "out"), np.rot90(seen(tmp_path / "in")))
    if kind == "WEBP":
        (name, head), *_ = webp_chunks((tmp_path / "out").read_bytes())
        assert (name, head[0]) == (b"VP8X", 0x08 + 0x10 * (mode == "RGBA"))
    save_tagged(tmp_path / "out", tmp_path / "back", -90)
    with Image.open(tmp_path / "back") as image:
        assert image.getexif()[ORIENTATION] == 1


def test_a_file_that_stands_upright_is_copied(tmp_path):
    noise().save(tmp_path / "in.gif")
    save_tagged(tmp_path / "in.gif", tmp_path / "out", 360)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in.gif").read_bytes()


def test_what_follows_the_image_stays(tmp_path):
    noise().save(tmp_path / "in", "JPEG")
    whole = (tmp_path / "in").read_bytes() + b"a short film"
    (tmp_path / "in").write_bytes(whole)
    save_tagged(tmp_path / "in", tmp_path / "out", 90)
    assert (tmp_path / "out").read_bytes().endswith(whole[whole.index(b"\xff\xda") :])


def test_a_second_image_of_a_camera_is_still_found(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 1
    noise().save(tmp_path / "in", "MPO", save_all=True, append_images=[noise().rotate(180)], exif=exif)
    save_tagged(tmp_path / "in", tmp_path / "out", 90)
    second = []
    for name in ("in", "out"):
        with Image.open(tmp_path / name) as image:
            image.seek(1)
            second.append(np.asarray(image))
    assert np.array_equal(*second)
    noise().save(tmp_path / "bare", "MPO", save_all=True, append_images=[noise()])
    with pytest.raises(Unreadable, match="second image"):
        save_tagged(tmp_path / "bare", tmp_path / "none", 90)


def filled(path):
    """A JPEG whose camera data leaves no room."""
    noise().save(path, "JPEG")
    data = path.read_bytes()
    block = b"II*\0" + struct.pack("<IHHHIII", 8, 1, MAKER, 2, 1, 0, 0)
    block += b"\0" * (0xFFFF - 2 - 6 - len(block))
    path.write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", 2 + 6 + len(block)) + b"Exif\0\0" + block + data[2:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: noise().save(path, "BMP"), "BMP has no orientation tag; --write pixels turns it"),
        (lambda path: noise().save(path, "GIF", save_all=True, append_images=[noise().rotate(9)]), "holds 2 images"),
        (lambda path: path.write_bytes(b"text"), "not an image of a known format"),
        (filled, "leaves no room"),
    ],
)
def test_what_has_no_tag_says_why_and_writes_nothing(make, message, tmp_path):
    make(tmp_path / "in")
    with pytest.raises(Unreadable, match=message):
        save_tagged(tmp_path / "in", tmp_path / "out", 90)
    assert not (tmp_path / "out").exists()
