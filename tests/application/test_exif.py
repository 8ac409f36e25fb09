"""The orientation in a block of camera data: changed alone, with Pillow as the judge of everything else."""

import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from duet.application.exif import turned_orientation, with_orientation
from duet.data.decoding import Unreadable

ORIENTATION, MAKER, SOFTWARE, CAMERA, PLACE = 0x0112, 0x010F, 0x0131, 0x8769, 0x8825


def shown(pixels, orientation):
    image = Image.fromarray(pixels)
    image.getexif()[ORIENTATION] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("quarters", [-1, 0, 1, 2, 3, 5])
def test_a_turned_orientation_shows_the_image_turned(orientation, quarters):
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    expected = np.rot90(shown(pixels, orientation), -quarters)
    assert np.array_equal(shown(pixels, turned_orientation(orientation, quarters)), expected)


def rich(orientation=None, maker="maker"):
    """Camera data with two more lists of entries; maker of odd and even length."""
    exif = Image.Exif()
    exif[MAKER], exif[SOFTWARE] = maker, "a program"
    if orientation is not None:
        exif[ORIENTATION] = orientation
    exif.get_ifd(CAMERA)[0x9003] = "2020:01:01 00:00:00"
    exif.get_ifd(PLACE)[1] = "N"
    return exif.tobytes().removeprefix(b"Exif\0\0")


def read(block):
    exif = Image.Exif()
    exif.load(b"Exif\0\0" + block)
    tags = {tag: value for tag, value in exif.items() if tag not in (CAMERA, PLACE)}
    return tags, dict(exif.get_ifd(CAMERA)), dict(exif.get_ifd(PLACE))


@pytest.mark.parametrize("had", [None, 1, 6])
@pytest.mark.parametrize("maker", ["a", "ab", "a longer maker"])
def test_everything_else_stays_where_it_is(had, maker):
    block = rich(had, maker)
    fresh = with_orientation(block, 8)
    before, after = read(block), read(fresh)
    assert after[0].pop(ORIENTATION) == 8
    before[0].pop(ORIENTATION, None)
    assert after == before
    assert list(after[0])[:1] == [MAKER]
    if had is None:
        assert fresh[8 : len(block)] == block[8:]
    else:
        assert sum(a != b for a, b in zip(fresh, block, strict=True)) == 1


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_orders_of_bytes(order):
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entries = struct.pack(order + "HHII", 0x0100, 4, 1, 77) + struct.pack(order + "HHII", 0x0200, 4, 1, 99)
    block = mark + struct.pack(order + "IH", 8, 2) + entries + struct.pack(order + "I", 0)
    assert read(with_orientation(block, 3))[0] == {0x0100: 77, ORIENTATION: 3, 0x0200: 99}
    assert read(with_orientation(with_orientation(block, 3), 6))[0][ORIENTATION] == 6
    for more in (b"", b"x"):
        (start,) = struct.unpack_from(order + "I", with_orientation(block + more, 3), 4)
        assert start == len(block) + 2 * len(more)


def test_a_new_block_holds_the_orientation_alone():
    assert read(with_orientation(None, 5))[0] == {ORIENTATION: 5}


@pytest.mark.parametrize("block", [b"garbage!", b"II*\0", b"II*\0\xff\xff\0\0", b"II*\0\x08\0\0\0\x09\0short"])
def test_broken_data_is_refused(block):
    with pytest.raises(Unreadable, match="camera data"):
        with_orientation(block, 6)
