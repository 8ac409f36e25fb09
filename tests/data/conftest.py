import io

import numpy as np
import pytest
from PIL import Image


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def solid(value, size=8):
    """An encoded image of one colour, which names it: image i of a set is solid(i)."""
    return encoded(Image.new("RGB", (size, size), (value, value // 2, 255 - value)))


@pytest.fixture
def picture():
    """Smooth 60x40 colours, so that JPEG keeps them."""
    y, x = np.mgrid[0:40, 0:60]
    return Image.fromarray(np.stack([4 * x, 6 * y, 2 * (x + y)], axis=2).astype(np.uint8))


@pytest.fixture(autouse=True)
def no_data_folder(request, monkeypatch):
    if request.node.get_closest_marker("data") is None:
        monkeypatch.delenv("DUET_DATA", raising=False)


@pytest.fixture
def image_folder(tmp_path):
    """Three classes of ten solid images."""
    for number, name in enumerate(["ant", "bee", "cat"]):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(10):
            (tmp_path / "set" / name / f"{i}.png").write_bytes(solid(10 * number + i))
    return tmp_path / "set"
