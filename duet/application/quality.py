"""How a file was encoded, so that what is turned is encoded alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from ..data.decoding import opened, orientation_of
from .tag import webp_chunks

FINE = {"WEBP": {"quality": 95}, "AVIF": {"quality": 90}, "HEIF": {"quality": 90}}
"""For formats that do not tell how they were encoded."""
FULL, HALF_WIDTH = 0, 1
"""Colour at every pixel, or at every second one of a row."""


def encoding_of(path: Path, sideways: bool) -> dict[str, Any]:
    """Pillow's options that encode an image as this file is; `sideways` when it is turned by a quarter or three."""
    with opened(path) as image:
        if isinstance(image, JpegImageFile):
            return _jpeg(image, sideways != (orientation_of(image) > 4))  # the camera may have lain on its side too
        if image.format == "WEBP" and any(kind == b"VP8L" for kind, _ in webp_chunks(path.read_bytes())):
            return {"lossless": True, "exact": True}
        return dict(FINE.get(image.format or "", {}))


def _jpeg(image: JpegImageFile, sideways: bool) -> dict[str, Any]:
    """The same tables of quantisation. The frequencies of a block that lies on its side are transposed, and so are the
    tables: then the same steps are taken, and what was rounded once is not rounded again elsewhere."""
    tables = [image.quantization[key] for key in sorted(image.quantization)]
    if sideways:
        tables = [[table[8 * (k % 8) + k // 8] for k in range(64)] for table in tables]
    options: dict[str, Any] = {"qtables": tables, "progressive": bool(image.info.get("progressive"))}
    if image.layers == 3:
        sampling = get_sampling(image)
        # Half the colours of a column, or still fewer, is nothing that Pillow writes: then all of them.
        options["subsampling"] = FULL if sampling < 0 or (sideways and sampling == HALF_WIDTH) else sampling
    return options
