"""Images as people hold them - files, Pillow images, arrays, tensors - as batches of the size that a model takes."""

import os
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..error import DuetError
from ..pixels import as_bytes, as_float, check_values
from .decoding import Pixels, Unreadable, decode
from .pool import Pool, in_parts

Picture: TypeAlias = "str | os.PathLike[str] | Image.Image | NDArray[Any] | Tensor"
Pictures: TypeAlias = "Picture | Iterable[Picture]"
Size: TypeAlias = tuple[int, int]

KINDS = "paths, Pillow images, arrays (H, W) or (H, W, C), tensors (C, H, W)"


def count_pictures(images: Pictures) -> int | None:
    """How many images these are; None where that shows only when they have been read."""
    if isinstance(images, np.ndarray) and images.dtype != object:
        return len(images) if images.ndim == 4 or (images.ndim == 3 and not _channels_last(images)) else 1
    if isinstance(images, Tensor):
        return len(images) if images.ndim == 4 else 1
    if isinstance(images, str | os.PathLike | Image.Image):
        return 1
    return len(images) if isinstance(images, Sized) else None


def picture_batches(images: Pictures, channels: int, size: Size | None, batch_size: int) -> Iterator[Tensor]:
    """Batches (n, channels, H, W), uint8 or float in [0, 1], of one image or many.

    An image of another size or with other channels becomes what training would have made of it: its centre square,
    resized, in 8 bits; without a `size` images stay as large as they are. Arrays have their channels last, tensors
    first.
    """
    if batch_size < 1:
        raise DuetError(f"batch_size starts at 1, got {batch_size}")
    block = _block(images, channels)
    if block is not None:
        if _fits(block, channels, size):
            yield from torch.split(block, batch_size) if len(block) else ()
            return
        singles: Iterator[Picture] = iter(block)
    elif isinstance(images, str | os.PathLike | Image.Image):
        singles = iter([images])
    elif isinstance(images, Iterable) and not isinstance(images, bytes | dict):
        singles = iter(images)
    else:
        raise DuetError(f"these are no images but {_a(images)}; images are {KINDS}, or a list of such")

    def fit(numbered: tuple[int, Picture]) -> Tensor:
        number, picture = numbered
        try:
            return _fit(picture, channels, size)
        except Unreadable as error:
            name = f" ({picture})" if isinstance(picture, str | os.PathLike) else ""
            raise DuetError(f"image {number}{name} cannot be used: {error}") from None

    for part in in_parts(Pool().map(fit, enumerate(singles)), batch_size):
        if len({image.dtype for image in part}) > 1:
            part = [as_float(image).float() for image in part]
        yield stack_alike(part)


def stack_alike(images: list[Tensor]) -> Tensor:
    """Images of one size as a batch: n x (C, H, W) -> (n, C, H, W)."""
    sizes = {tuple(image.shape[1:]) for image in images}
    if len(sizes) > 1:
        shown = " and ".join(f"{width}x{height}" for height, width in sorted(sizes)[:2])
        raise DuetError(f"images of different sizes ({shown}), and this model does not say which it takes: resize them")
    return torch.stack(images)


def _fit(picture: Picture, channels: int, size: Size | None) -> Tensor:
    """One image as (channels, H, W)."""
    if isinstance(picture, str | os.PathLike):
        return torch.from_numpy(read_pixels(Path(picture), channels, size))
    if isinstance(picture, Image.Image):
        return torch.from_numpy(read_pixels(picture, channels, size))
    if not isinstance(picture, np.ndarray | Tensor):
        raise Unreadable(f"it is {_a(picture)}; images are {KINDS}")
    try:
        block = _block(picture, channels)
    except DuetError as error:
        raise Unreadable(str(error)) from None
    if block is None or len(block) != 1:
        raise Unreadable(f"shape {tuple(picture.shape)} is not that of one image")
    if _fits(block, channels, size):
        return block[0]
    eight_bits = as_bytes(block)
    return torch.from_numpy(read_pixels(eight_bits[0].permute(1, 2, 0).cpu().numpy(), channels, size))


def _fits(block: Tensor, channels: int, size: Size | None) -> bool:
    return block.shape[1] == channels and (size is None or block.shape[2:] == size)


def read_pixels(encoded: Path | Image.Image | Pixels, channels: int, size: Size | None) -> Pixels:
    """Pixels (channels, H, W) at the model's size; Unreadable says why there are none."""
    if size is None:
        return decode(encoded, channels)
    height, width = size
    if height == width:
        return decode(encoded, channels, height)
    # Trained on images that are not square, and so without resizing.
    pixels = decode(encoded, channels)
    if pixels.shape[1:] != size:
        raise Unreadable(f"{pixels.shape[2]}x{pixels.shape[1]}; this model takes exactly {width}x{height}")
    return pixels


def _block(images: Any, channels: int) -> Tensor | None:
    """An array or tensor as (N, C, H, W), uint8 or float in [0, 1]; None for anything else."""
    if isinstance(images, np.ndarray) and images.dtype != object:
        block = _array_block(images, channels)
    elif isinstance(images, Tensor):
        block = _tensor_block(images)
    else:
        return None
    if block.dtype == torch.bool:
        block = block.float()
    if not block.is_floating_point() and block.dtype != torch.uint8:
        if block.is_complex() or (block.numel() and (block.min() < 0 or block.max() > 255)):
            raise DuetError(f"images must be float in [0, 1] or whole numbers in 0 to 255, these are {images.dtype}")
        block = block.to(torch.uint8)
    check_values(block)
    return block.detach()


def _array_block(array: NDArray[Any], channels: int | None = None) -> Tensor:
    """(H, W), (H, W, C), (N, H, W) or (N, H, W, C) with C of 1, 3 or 4 -> (N, C, H, W)."""
    last = _channels_last(array)
    if array.ndim not in (2, 3, 4) or (array.ndim == 4 and not last):
        raise DuetError(f"arrays of images are (H, W), (H, W, C), (N, H, W) or (N, H, W, C), not {array.shape}")
    if array.ndim == 3 and not last and channels == array.shape[0] == 3:
        raise DuetError(
            f"an array of shape {array.shape} seems to have its channels first: give image.transpose(1, 2, 0), "
            "or grey images as (N, H, W, 1)"
        )
    if not last:
        array = array[..., None]
    if array.ndim == 3:
        array = array[None]
    if array.dtype.kind not in "fiub":
        raise DuetError(f"images must be float in [0, 1] or whole numbers in 0 to 255, these are {array.dtype}")
    kind: Any = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}[array.dtype.kind]
    if array.dtype == np.uint8:
        kind = np.uint8
    plain = np.ascontiguousarray(array.transpose(0, 3, 1, 2), dtype=kind)
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy())


def _channels_last(array: NDArray[Any]) -> bool:
    return array.ndim > 2 and array.shape[-1] in (1, 3, 4)


def _tensor_block(tensor: Tensor) -> Tensor:
    """(H, W), (C, H, W) or (N, C, H, W) with C of 1, 3 or 4 -> (N, C, H, W)."""
    full = tensor[(None,) * (4 - tensor.ndim)] if tensor.ndim in (2, 3) else tensor
    if full.ndim != 4 or full.shape[1] not in (1, 3, 4):
        hint = "; for grey images (N, H, W) give images[:, None]" if tensor.ndim == 3 else ""
        raise DuetError(f"tensors of images are (C, H, W) or (N, C, H, W), not {tuple(tensor.shape)}{hint}")
    return full.float() if full.is_floating_point() else full


def _a(thing: object) -> str:
    name = type(thing).__name__
    return "nothing" if thing is None else f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"
