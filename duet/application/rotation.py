"""A file's own pixels turned and written again, in its own format, size and colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from ..data.decoding import Unreadable, open_upright, opened
from ..file import is_full
from .quality import encoding_of
from .tag import WRITERS, save_tagged

SMOOTH = ("L", "F", "RGB", "LA", "RGBA", "CMYK")
"""Modes in which colours can be mixed."""
QUARTERS = {
    90.0: Image.Transpose.ROTATE_90,
    180.0: Image.Transpose.ROTATE_180,
    270.0: Image.Transpose.ROTATE_270,
}
KEPT = ("exif", "icc_profile", "dpi", "xmp")
LOSSLESS = ("BMP", "GIF", "PPM")
"""Formats without an orientation tag in which a quarter turn moves pixels and changes none."""


def save_quarter(path: Path, target: Path, degrees: float) -> None:
    """Write the image of `path` turned counter-clockwise by quarter turns, and change no pixel: by its orientation tag
    where the format has one, else by moving pixels where that loses nothing; Unreadable says why it was not done."""
    with opened(path) as image:
        kind = image.format or ""
    if kind in WRITERS:
        save_tagged(path, target, degrees)
    elif kind in LOSSLESS:
        save_turned(path, target, degrees)
    else:
        raise Unreadable(f"{kind} has no orientation tag; --write pixels encodes it again")


def save_turned(path: Path, target: Path, degrees: float, expand: bool = False) -> None:
    """Write the image of `path` turned counter-clockwise about its centre; Unreadable says why it was not done.

    `expand` writes a larger image, of which nothing is cut.
    """
    image, frames = open_upright(path)
    if frames > 1:
        raise Unreadable(f"it holds {frames} images")
    kind = "JPEG" if image.format == "MPO" else image.format or "PNG"
    if kind == "PNG" and _has_wide_colours(path):
        raise Unreadable("it has 16 bits a colour, of which Pillow keeps 8; --write exif keeps them")
    kept = {name: image.info[name] for name in (*KEPT, "compression" if kind == "TIFF" else "") if image.info.get(name)}
    try:
        turned = turn(image, degrees, expand)
        turned.save(target, kind, **encoding_of(path, sideways=degrees % 180 == 90), **kept)
    except Exception as error:  # A format may lack a mode, a codec may be missing, metadata may be broken.
        if is_full(error):
            raise
        target.unlink(missing_ok=True)
        raise Unreadable(f"it cannot be written as {kind}: {' '.join(str(error).split())[:120]}") from error


def _has_wide_colours(path: Path) -> bool:
    """Whether a PNG has 16 bits for each of several channels: its header has them in bytes 24 and 25."""
    with path.open("rb") as file:
        header = file.read(26)
    return len(header) == 26 and header[24] == 16 and header[25] in (2, 4, 6)


def turn(image: Image.Image, degrees: float, expand: bool = False) -> Image.Image:
    """The image turned counter-clockwise about its centre, in its own mode where that can be, and in its own size or,
    with `expand`, in one that holds all of it.

    Quarter turns move pixels exactly; those of an image that is not square swap its sides. Elsewhere the corners that
    the image does not reach take the colour of its edge, or are transparent where it can be.
    """
    degrees %= 360
    if degrees == 0:
        return image
    if degrees in QUARTERS:
        return image.transpose(QUARTERS[degrees])
    mode = image.mode
    smooth = image.convert(_smooth_mode(image))
    turned = smooth.rotate(degrees, Image.Resampling.BICUBIC, expand=expand, fillcolor=_edge_colour(smooth))
    if mode == "1":
        return turned.point(lambda value: 255 if value > 127 else 0).convert("1")
    if mode.startswith("I"):
        return _whole_numbers(turned, mode)
    return turned


def _edge_colour(image: Image.Image) -> Any:
    """The median of the outermost pixels, by channel; nothing at all where there is transparency."""
    import numpy as np

    if image.mode in ("LA", "RGBA"):
        return (0,) * len(image.mode)
    width, height = image.size
    strips = ((0, 0, width, 1), (0, height - 1, width, height), (0, 0, 1, height), (width - 1, 0, width, height))
    edge = np.concatenate([np.asarray(image.crop(strip)).reshape(-1, len(image.getbands())) for strip in strips])
    middle = np.median(edge, 0)
    if image.mode == "F":
        return float(middle[0])
    colour = tuple(int(value) for value in middle)
    return colour if len(colour) > 1 else colour[0]


def _smooth_mode(image: Image.Image) -> str:
    """A mode in which colours can be mixed."""
    if image.mode in SMOOTH:
        return image.mode
    if image.mode == "1":
        return "L"
    if image.mode.startswith("I"):
        return "F"
    return "RGBA" if image.has_transparency_data else "RGB"


def _whole_numbers(turned: Image.Image, mode: str) -> Image.Image:
    import numpy as np

    values = np.rint(np.asarray(turned))
    if mode == "I":
        return Image.fromarray(values.clip(0, 2**31 - 1).astype(np.int32))
    return Image.fromarray(values.clip(0, 65535).astype(np.uint16))
