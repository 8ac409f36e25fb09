"""Encoded images to uint8 pixels. The bytes may come from strangers: nothing in them runs, no failure escapes."""

import io
import math
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ..error import first_line

Pixels: TypeAlias = NDArray[np.uint8]
Encoded: TypeAlias = "bytes | Path | Image.Image | NDArray[Any]"

# Only formats that Pillow decodes by itself: EPS, for one, would start Ghostscript.
FORMATS = ("JPEG", "PNG", "MPO", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "HEIF")
HEIC = tuple(b"ftyp" + brand for brand in (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"))
COLOUR_SIDE = 32
COLOURLESS = 6.0
"""Levels of 255 by which the channels of a grey image may differ on average: compression and paper tint a scan."""
MODES = {1: "L", 3: "RGB"}
ORIENTATION = 0x0112
AT_ONCE = 1 << 26
"""Bytes of a file that are read in one piece."""


class Unreadable(Exception):
    """Why one image cannot be used; the message is short and the same on every machine."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's remarks on odd files; around a whole run, because warning filters belong to the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def opened(encoded: Encoded, whole: bool = False) -> Iterator[Image.Image]:
    """An image of which the header is read, and nothing more; whatever goes wrong with it is Unreadable.

    `whole` reads a file at once, for those who want its pixels anyway.
    """
    try:
        with _open(encoded, whole) as image:
            yield image
    except Unreadable:
        raise
    except Exception as error:  # A broken file makes Pillow raise nearly anything.
        raise Unreadable(_reason(error)) from error


def decode(encoded: Encoded, channels: int, image_size: int | None = None) -> Pixels:
    """Pixels (channels, H, W) of an encoded image; with `image_size`, its centre square resized to that side."""
    with opened(encoded, whole=True) as image:
        if image_size is not None and isinstance(encoded, (bytes, Path)):
            # JPEG can decode at 1/2, 1/4 or 1/8; twice the wanted side leaves the antialiasing to `resize`.
            image.draft(None, (2 * image_size, 2 * image_size))
        flat = _flatten(_orient(image), MODES[channels])
        if image_size is not None:
            flat = _centre_square(flat, image_size)
        pixels = np.array(flat, dtype=np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def open_upright(path: Path) -> tuple[Image.Image, int]:
    """The first image of a file, upright, in its own mode and with its own `format`; how many images it holds."""
    with opened(path) as image:
        frames = count_frames(image)
        image.load()
        upright = _orient(image)
        upright.format = image.format
        return upright, frames


def thumbnail(path: Path, side: int) -> Image.Image:
    """The first image of a file, upright and whole, in colour, reduced until its longer side is at most `side`."""
    with opened(path) as image:
        image.draft(None, (2 * side, 2 * side))
        small = _flatten(_orient(image), "RGB")
        small.thumbnail((side, side))
        return small


def is_colourful(encoded: Encoded) -> bool:
    """Whether an image is in colour: a grey photo that a scanner stored as RGB is not."""
    with opened(encoded) as image:
        if image.mode in ("1", "L", "LA", "I", "I;16", "F"):
            return False
        image.draft(None, (2 * COLOUR_SIDE, 2 * COLOUR_SIDE))
        small = _flatten(image, "RGB").resize((COLOUR_SIDE, COLOUR_SIDE), Image.Resampling.BOX)
        pixels = np.asarray(small, dtype=np.int16)
    return float((pixels.max(2) - pixels.min(2)).mean()) > COLOURLESS


def measure(encoded: Encoded) -> tuple[int, int]:
    """(H, W) of an upright image, from its header alone."""
    with opened(encoded) as image:
        width, height = image.size
        # Of a TIFF Pillow tells the size as it is seen.
        sideways = orientation_of(image) in (5, 6, 7, 8) and image.format != "TIFF"
        return (width, height) if sideways else (height, width)


def count_frames(image: Image.Image) -> int:
    """How many images a file holds; what a camera adds to a photo does not count."""
    return 1 if image.format == "MPO" else int(getattr(image, "n_frames", 1))


def _open(encoded: Encoded, whole: bool) -> Image.Image:
    if isinstance(encoded, Image.Image):
        return encoded.copy()
    if isinstance(encoded, np.ndarray):
        return _from_array(encoded)
    size = _size(encoded) if isinstance(encoded, Path) else len(encoded)
    if size == 0:
        raise Unreadable("empty file")
    if isinstance(encoded, Path) and whole and size <= AT_ONCE:
        # Pillow reads a header in some forty pieces, and lets go of the interpreter for each: threads would queue.
        encoded = encoded.read_bytes()
    try:
        image = Image.open(encoded if isinstance(encoded, Path) else io.BytesIO(encoded), formats=_formats())
    except UnidentifiedImageError:
        if _is_heic(encoded):
            raise Unreadable("a HEIC photo: to read these, pip install pillow-heif") from None
        raise
    limit = Image.MAX_IMAGE_PIXELS or math.inf
    if image.width * image.height > limit:
        image.close()
        raise Unreadable(f"too many pixels: {image.width}x{image.height}")
    return image


def _size(path: Path) -> int:
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        try:
            os.scandir(path).close()
        except OSError as error:
            raise Unreadable(f"a folder that cannot be opened: {first_line(error.strerror or error)}") from None
        raise Unreadable("a folder; give the files in it")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("not a regular file")  # reading a pipe could wait for ever
    return found.st_size


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    Image.init()
    try:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    except ImportError:  # who has no HEIC photos does not need it
        pass
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _is_heic(encoded: bytes | Path) -> bool:
    if isinstance(encoded, bytes):
        return encoded[4:12] in HEIC
    with encoded.open("rb") as file:
        return file.read(12)[4:] in HEIC


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or not np.issubdtype(array.dtype, np.integer):
        raise Unreadable(f"an array of {array.dtype} and shape {array.shape}, expected integers (H, W) or (H, W, 3)")
    if array.size and (array.min() < 0 or array.max() > 255):
        raise Unreadable("an array with values outside 0 to 255")
    return Image.fromarray(np.ascontiguousarray(array, dtype=np.uint8))


def orientation_of(image: Image.Image) -> int:
    """The camera's orientation tag, from 1 to 8; 1 is as it is."""
    try:
        found = int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # Broken metadata is no reason to lose a readable image.
        return 1
    return found if found in range(2, 9) else 1


def _orient(image: Image.Image) -> Image.Image:
    return ImageOps.exif_transpose(image) if orientation_of(image) != 1 else image


def _flatten(image: Image.Image, mode: str) -> Image.Image:
    """One 8-bit frame: 16-bit values are scaled, transparency is laid over black, colours follow Pillow's rules."""
    if image.mode.startswith("I"):
        values = np.clip(np.asarray(image, dtype=np.int64), 0, 65535)
        image = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    elif image.mode == "F":
        values = np.nan_to_num(np.asarray(image, dtype=np.float64))
        scale = 255.0 if values.max(initial=0.0) <= 1.0 else 1.0
        image = Image.fromarray(np.clip(np.rint(values * scale), 0, 255).astype(np.uint8))
    elif image.has_transparency_data:
        black = Image.new("RGBA", image.size, (0, 0, 0, 255))
        image = Image.alpha_composite(black, image.convert("RGBA")).convert("RGB")
    return image.convert(mode)


def _centre_square(image: Image.Image, side: int) -> Image.Image:
    """The shorter side becomes `side`, the longer one is cropped about its centre: one antialiased resampling."""
    if image.size == (side, side):
        return image
    shorter = min(image.size)
    left, top = (image.width - shorter) / 2, (image.height - shorter) / 2
    box = (left, top, left + shorter, top + shorter)
    return image.resize((side, side), Image.Resampling.BICUBIC, box=box)


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image of a known format"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels"
    if isinstance(error, FileNotFoundError):
        return "file not found"
    return first_line(error.strerror if isinstance(error, OSError) and error.strerror else error, longest=120)
