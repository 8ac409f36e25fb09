"""Open any source of images: find it, choose the split and the subset, keep it in memory or stream it."""

import logging
import os
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from ..error import DuetError
from .decoding import MODES, Unreadable, is_colourful, measure, quiet
from .images import Images
from .memory import MemoryImages, decode_all
from .named import EMBEDDED, find_source
from .source import Records
from .split import DIVISIBLE, balanced_subset, choose_split, has_test
from .stream import StreamImages

log = logging.getLogger(__name__)

STORAGES = ("auto", "memory", "stream")
# Decoded pixels above this size are streamed.
MEMORY_LIMIT = 4 * 2**30
SAMPLED_SIZES = 32
SAMPLED_COLOURS = 8


def open_images(
    source: str | os.PathLike[str] | Any = EMBEDDED,
    split: str = "train",
    *,
    image_size: int | None = None,
    channels: int = 3,
    subset: int | None = None,
    seed: int = 0,
    storage: str = "auto",
    workers: int | None = None,
) -> Images:
    """Images of a name, a folder, parquet files or a `datasets.Dataset`, as uint8 (channels, H, W).

    `split`: "train", "test" (a fifth of each class is held out where the source has none), "all", or the source's own.
    `image_size`: the centre square resized to this side; None keeps the size that all images share.
    `subset`: this many images, class-balanced, chosen by `seed`. `storage`: "auto" streams above MEMORY_LIMIT.
    """
    _check(image_size, channels, subset, storage, workers)
    name, splits = find_source(source)
    found, indices = choose_split(splits, split, name)
    held = None if has_test(splits) or split not in DIVISIBLE else len(found.records) - len(indices)
    labels = None if found.labels is None else found.labels[indices]
    if subset is not None:
        if subset > len(indices):
            raise DuetError(f"{name} has {len(indices)} {split} images, fewer than a --subset of {subset}")
        chosen = balanced_subset(len(indices), labels, subset, seed)
        indices, labels = indices[chosen], None if labels is None else labels[chosen]
    if image_size is None:
        height, width = _shared_size(found.records, indices, name)
    else:
        height = width = image_size
    if channels == 1 and _are_colourful(found.records, indices):
        log.warning(
            "%s: these images are in colour and are taken as grey: a model of grey images may misread them", name
        )
    shape = (channels, height, width)
    size = len(indices) * channels * height * width
    if storage == "auto":
        storage = "stream" if size > MEMORY_LIMIT else "memory"
    images: Images
    if storage == "stream":
        _sizes(found.records, indices, name, enough=1)
        images = StreamImages(name, split, found.records, indices, shape, image_size, labels, found.classes, workers)
    else:
        pixels, kept, failures = decode_all(found.records, indices, shape, image_size, f"decoding {name}")
        if not len(kept):
            raise _none_readable(name, failures)
        labels = None if found.labels is None else found.labels[kept]
        names = [found.records.name(index) for index in kept.tolist()]
        images = MemoryImages(name, split, pixels, labels, found.classes, failures, names)
    images.held_out = held
    where = "streamed" if storage == "stream" else "in memory"
    shown = f"{width}x{height}x{channels}, {where} ({size / 2**20:.0f} MiB)"
    log.info("%s, %s: %d images %s", name, split, len(images), shown)
    return images


def _check(image_size: int | None, channels: int, subset: int | None, storage: str, workers: int | None) -> None:
    if channels not in MODES:
        raise DuetError(f"images have 1 or 3 channels, not {channels}")
    if storage not in STORAGES:
        raise DuetError(f"no storage {storage!r}; there are {', '.join(STORAGES)}")
    for option, value, least in (("image size", image_size, 1), ("subset", subset, 1), ("workers", workers, 0)):
        if value is not None and value < least:
            raise DuetError(f"{option} starts at {least}, got {value}")


def _shared_size(records: Records, indices: Tensor, name: str) -> tuple[int, int]:
    """(H, W) of the images, from the headers of a few all over the set; an error when they differ."""
    spread = torch.linspace(0, len(indices) - 1, min(SAMPLED_SIZES, len(indices))).long()
    # The others follow, in case those few are broken.
    sizes = _sizes(records, torch.cat([indices[spread], indices]), name, enough=len(spread))
    if len(sizes) > 1:
        shown = ", ".join(f"{width}x{height}" for height, width in sorted(sizes)[:3])
        raise DuetError(f"the images of {name} have different sizes ({shown}, ...): choose one with --image-size")
    return sizes.pop()


def _are_colourful(records: Records, indices: Tensor) -> bool:
    """Whether most of a few images are in colour, as far as they can be read."""
    found = []
    with quiet():
        for index in indices[torch.linspace(0, len(indices) - 1, min(SAMPLED_COLOURS, len(indices))).long()].tolist():
            with suppress(Unreadable):
                found.append(is_colourful(records[index]))
    return 2 * sum(found) > len(found)


def _sizes(records: Records, indices: Tensor, name: str, enough: int) -> set[tuple[int, int]]:
    """Sizes (H, W) of the first `enough` images that can be read; an error when none can."""
    sizes: list[tuple[int, int]] = []
    failures: dict[str, str] = {}
    with quiet():
        for index in indices.tolist():
            try:
                sizes.append(measure(records[index]))
            except Unreadable as error:
                failures[records.name(index)] = str(error)
            if len(sizes) == enough:
                break
    if not sizes:
        raise _none_readable(name, failures)
    return set(sizes)


def _none_readable(name: str, failures: dict[str, str]) -> DuetError:
    first, reason = next(iter(failures.items()))
    return DuetError(f"none of the {len(failures)} images of {name} can be read; the first: {first}: {reason}")
