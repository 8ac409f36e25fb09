"""The orientation tag of an image file, set without a look at its pixels: their bytes stay as they are."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image

from ..data.decoding import Unreadable, count_frames, opened, orientation_of
from .exif import turned_orientation, with_orientation

PREFIX = b"Exif\0\0"
PNG = b"\x89PNG\r\n\x1a\n"
LONGEST = 0xFFFF - 2
"""Bytes that one segment of a JPEG holds."""
HAS_EXIF, HAS_ALPHA = 0x08, 0x10


def save_tagged(path: Path, target: Path, degrees: float) -> None:
    """Write the file with a tag that shows it turned counter-clockwise by quarter turns; Unreadable says why not.

    The tag that it had is turned further, so that what is seen now is what is turned.
    """
    with opened(path) as image:
        frames, kind, tag = count_frames(image), image.format or "", orientation_of(image)
    if frames > 1:
        raise Unreadable(f"it holds {frames} images")
    wanted = turned_orientation(tag, round(-degrees / 90))
    data = path.read_bytes()
    target.write_bytes(data if wanted == tag else _tagged(data, kind, wanted))


def _tagged(data: bytes, kind: str, wanted: int) -> bytes:
    if kind not in WRITERS:
        raise Unreadable(f"{kind} has no orientation tag; --write pixels turns it")
    try:
        fresh = WRITERS[kind](data, wanted)
    except (ValueError, IndexError, struct.error):
        raise Unreadable("its parts are not where they should be; --write pixels turns it") from None
    if kind == "MPO" and len(fresh) != len(data):
        raise Unreadable("its second image would not be found any more; --write pixels turns it")
    with opened(fresh) as image:
        if orientation_of(image) != wanted:
            raise Unreadable("its tag cannot be set; --write pixels turns it")
    return fresh


def _jpeg(data: bytes, orientation: int) -> bytes:
    """The Exif segment changed, or a new one behind the file's first lines."""
    place = 2
    for marker, start, end in _segments(data):
        if marker == 0xE1 and data[start + 4 : start + 10] == PREFIX:
            return data[:start] + _segment(with_orientation(data[start + 10 : end], orientation)) + data[end:]
        if marker == 0xE0:  # JFIF wants to be first
            place = end
    return data[:place] + _segment(with_orientation(None, orientation)) + data[place:]


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, start and end of every segment before the image."""
    start = 2
    while start + 4 <= len(data) and data[start] == 0xFF:
        marker = data[start + 1]
        if marker == 0xFF:  # a marker may be preceded by any number of these
            start += 1
            continue
        if marker in (0xDA, 0xD9):
            return
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
        yield marker, start, end
        start = end


def _segment(block: bytes) -> bytes:
    if len(PREFIX) + len(block) > LONGEST:
        raise Unreadable("its camera data leaves no room for the tag; --write pixels turns it")
    return b"\xff\xe1" + struct.pack(">H", 2 + len(PREFIX) + len(block)) + PREFIX + block


def _png(data: bytes, orientation: int) -> bytes:
    """The eXIf chunk changed, or a new one before the image."""
    chunks = []
    start = len(PNG)
    while start + 12 <= len(data):
        end = start + 12 + int.from_bytes(data[start : start + 4], "big")
        chunks.append((data[start + 4 : start + 8], data[start:end]))
        start = end
    kinds = [kind for kind, _ in chunks]
    place = kinds.index(b"eXIf" if b"eXIf" in kinds else b"IDAT")
    old = chunks[place][1][8:-4] if b"eXIf" in kinds else None
    named = b"eXIf" + with_orientation(old, orientation)
    fresh = struct.pack(">I", len(named) - 4) + named + struct.pack(">I", zlib.crc32(named))
    kept = chunks[place + 1 :] if b"eXIf" in kinds else chunks[place:]
    return PNG + b"".join(whole for _, whole in chunks[:place]) + fresh + b"".join(w for _, w in kept) + data[start:]


def webp_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Kind and content of every part of a WebP file."""
    chunks = []
    start = 12
    while start + 8 <= len(data):
        size = int.from_bytes(data[start + 4 : start + 8], "little")
        chunks.append((data[start : start + 4], data[start + 8 : start + 8 + size]))
        start += 8 + size + size % 2
    return chunks


def _webp(data: bytes, orientation: int) -> bytes:
    """The EXIF chunk changed, or a new one at the end; a plain file becomes an extended one, with the same image."""
    chunks = webp_chunks(data)
    if chunks[0][0] != b"VP8X":
        with Image.open(io.BytesIO(data)) as image:
            width, height, alpha = *image.size, image.mode == "RGBA"
        sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        chunks.insert(0, (b"VP8X", bytes([HAS_ALPHA if alpha else 0, 0, 0, 0]) + sides))
    old = next((content for kind, content in chunks if kind == b"EXIF"), b"")
    prefix = PREFIX if old.startswith(PREFIX) else b""
    fresh = (b"EXIF", prefix + with_orientation(old[len(prefix) :], orientation))
    canvas = chunks[0][1]
    chunks[0] = (b"VP8X", bytes([canvas[0] | HAS_EXIF]) + canvas[1:])
    chunks = [fresh if kind == b"EXIF" else (kind, content) for kind, content in chunks]
    if not old:
        chunks.append(fresh)
    body = b"".join(
        kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2) for kind, content in chunks
    )
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


WRITERS: dict[str, Callable[[bytes, int], bytes]] = {
    **{"JPEG": _jpeg, "MPO": _jpeg, "PNG": _png, "WEBP": _webp},
    **{"TIFF": with_orientation},  # the file is such a block itself
}
