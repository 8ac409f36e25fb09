"""Folders of images, good and bad."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb():
    """A PNG that promises 60,000 x 60,000 pixels."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 64)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


@pytest.fixture
def photos(tmp_path):
    """Nine images at two depths, of several sizes and formats."""
    folder = tmp_path / "photos"
    (folder / "inner" / "deep").mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(9):
        height, width = random.integers(20, 60, 2)
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        place = [folder, folder / "inner", folder / "inner" / "deep"][number % 3]
        image.save(place / f"{number}.{('png', 'jpg', 'webp')[number // 3]}")
    return folder


@pytest.fixture
def hostile(photos):
    """The same folder with everything that may be in a stranger's folder; returns the bad names."""
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(whole, "JPEG")
    names = {
        "zero.png": b"",
        "text.png": b"I am a text.",
        "bomb.png": bomb(),
        "cut.jpg": whole.getvalue()[: len(whole.getvalue()) // 2],
        "line\nbreak\x1b[31m.png": b"x",
        "x" * 240 + ".png": b"x",
        "inner/-o.png": b"x",
        "inner/'; rm.png": b"x",
    }
    for name, data in names.items():
        (photos / name).write_bytes(data)
    (photos / "notes.txt").write_text("left alone")
    return sorted(names)


def marked(size=40, angle=0.0, mode="L", at=0.6):
    """A black image with a bright spot above its centre, turned counter-clockwise."""
    width, height = (size, size) if isinstance(size, int) else size
    image = np.zeros((height, width), np.uint8)
    radius = at * min(width, height) / 2
    x = width / 2 - radius * np.sin(np.deg2rad(angle))
    y = height / 2 - radius * np.cos(np.deg2rad(angle))
    rows, columns = np.mgrid[0:height, 0:width] + 0.5
    image[(rows - y) ** 2 + (columns - x) ** 2 <= (0.12 * min(width, height)) ** 2] = 255
    return Image.fromarray(image).convert(mode)


def bearing(image):
    """The angle of the bright spot, counter-clockwise from straight up."""
    grey = np.asarray(image.convert("L"), dtype=float)
    rows, columns = np.mgrid[0 : grey.shape[0], 0 : grey.shape[1]] + 0.5
    x = (grey * (columns - grey.shape[1] / 2)).sum()
    y = (grey * (rows - grey.shape[0] / 2)).sum()
    return float(np.rad2deg(np.arctan2(-x, -y)))
