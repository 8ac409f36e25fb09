"""What a frozen trunk makes of several views of every image: computed once, kept on disk, and trained on many times."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import Images
from ..data.images import Batch
from ..error import DuetError
from ..file import from_home, write_json
from ..groups import Stack
from ..methods import Views
from ..networks import Trunk
from ..progress import track
from .process import rank
from .step import step_seed

log = logging.getLogger(__name__)

CHUNK = 128
"""Images that are computed, and kept, at a time."""
WAIT = 2.0  # seconds between two looks of a process that waits for the first one


class CachedViews(Images):
    """Maps (N,V,C,s,s) of V views of each of N images in float16, memory-mapped, with the g of every tracked group.

    As images it gives their numbers: `pick` then takes views of them.
    """

    storage = "memory"
    statistics_sample = 2048

    def __init__(
        self, images: Images, maps: NDArray[np.float16], g: dict[str, Tensor], labels: Tensor | None, key: str
    ) -> None:
        _, _, channels, height, width = maps.shape
        super().__init__(images.name, images.split, (channels, height, width), labels, images.classes)
        self._maps, self._g, self.key = maps, g, key
        self._failures = images._failures

    def __len__(self) -> int:
        return len(self._maps)

    @property
    def views(self) -> int:
        """Views of every image (V)."""
        return int(self._maps.shape[1])

    def __getitem__(self, index: int) -> Tensor:
        """The maps of one image, (V,C,s,s)."""
        return torch.from_numpy(np.array(self._maps[index]))

    def pick(self, rows: Tensor, count: int, generator: torch.Generator) -> Views:
        """`count` different views of each of these images, drawn at random: (B,) -> Views with maps for images."""
        if count > self.views:
            raise DuetError(f"the method asks for {count} views, and {self.views} are cached: give more --cached-views")
        drawn = torch.rand(len(rows), self.views, generator=generator).argsort(1)[:, :count]  # (B, count)
        image, view = rows.cpu().repeat(count), drawn.T.flatten()  # all of the first view, then all of the second, ...
        maps = torch.from_numpy(self._maps[image.numpy(), view.numpy()]).to(rows.device).float()
        return Views(maps, {name: g[image, view].to(rows.device) for name, g in self._g.items()}, count)

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (C,), (C,) of the maps' channels over images and places, of a sample."""
        rows = torch.linspace(0, len(self) - 1, min(self.statistics_sample, len(self))).long()
        return map_statistics(torch.from_numpy(self._maps[rows.numpy(), 0]).float())

    def identities(self) -> Iterator[bytes]:
        raise NotImplementedError("cached views are of images that have been chosen already")

    def _part(self, rows: Tensor, split: str) -> Images:
        raise NotImplementedError("cached views are of images that have been chosen already")

    def _fetch(self, batches: Iterable[Tensor], replace: bool) -> Iterator[Batch]:
        for rows in batches:
            yield rows, None if self.labels is None else self.labels[rows]


def map_statistics(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every channel over images and places: (N,C,s,s) -> (C,), (C,)."""
    std, mean = torch.std_mean(maps.double(), dim=(0, 2, 3), correction=0)
    return mean.float(), std.clamp(min=1e-6).float()


def cache_views(
    trunk: Trunk, images: Images, stack: Stack, views: int, seed: int, folder: Path | None = None
) -> CachedViews:
    """The trunk's maps of `views` views of every image, on the trunk's device; what is there already is not computed.

    Kept under a key of all that decides them, in $DUET_CACHE or the user's cache folder; what was stopped goes on.
    """
    key = _key(trunk, images, stack, views, seed)
    place = (folder or cache_folder()) / key
    if rank() > 0:
        while not _state(place).get("whole"):
            time.sleep(WAIT)  # the first process computes them
    elif not _state(place).get("whole"):
        _compute(trunk, images, stack, views, seed, place)
    count = int(_state(place)["count"])
    maps, g, labels = (np.load(place / f"{name}.npy", mmap_mode="r") for name in ("maps", "g", "labels"))
    elements = torch.from_numpy(np.array(g[:count]))
    names = [group.name for group in stack.tracked]
    known = None if images.labels is None else torch.from_numpy(np.array(labels[:count]))
    return CachedViews(images, maps[:count], {name: elements[:, :, i] for i, name in enumerate(names)}, known, key)


def cache_folder() -> Path:
    """Where cached views are kept: $DUET_CACHE, else the user's own cache."""
    own = os.environ.get("DUET_CACHE")
    return Path(own) if own else from_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "duet" / "views"


def _key(trunk: Trunk, images: Images, stack: Stack, views: int, seed: int) -> str:
    """A short hash of the weights, what is read of them, the images, how views are drawn, and the seed."""
    read: tuple[object, ...] = (trunk.name, trunk.checksum, trunk.layers, trunk.side, str(trunk.mean.dtype))
    read += () if trunk.resize is None else (trunk.resize,)
    digest = hashlib.sha256(repr((read, views, seed, repr(stack), images.fingerprint())).encode())
    for identity in images.identities():
        digest.update(hashlib.sha256(identity).digest())
    return digest.hexdigest()[:16]


def _state(place: Path) -> dict[str, Any]:
    """How far it is: the rows of the source that are done, how many of them could be read, whether that is all."""
    path = place / "state.json"
    return dict(json.loads(path.read_text())) if path.exists() else {"done": 0, "count": 0}


def _compute(trunk: Trunk, images: Images, stack: Stack, views: int, seed: int, place: Path) -> None:
    """Fill the files, a chunk at a time; the views of a chunk are a function of the seed and its number."""
    state = _state(place)
    files = _files(trunk, images, stack, views, place, new=not state["done"])
    maps, g, labels = files
    total = len(images) * views
    log.info("%d views of each of %d images go through %s, once: %s", views, len(images), trunk.name, place)
    starts = range(int(state["done"]), len(images), CHUNK)
    sized = ((views * min(CHUNK, len(images) - start), start) for start in starts)
    count = int(state["count"])
    for start in track(sized, total - state["done"] * views, f"{views} views of every image through {trunk.name}"):
        generator = torch.Generator().manual_seed(step_seed(seed, start, 0))
        rows = torch.arange(start, min(start + CHUNK, len(images)))
        for pixels, told in images.part(rows).in_order(CHUNK):
            part = slice(count, count + len(pixels))
            drawn = [stack(pixels.to(trunk.mean.device), generator) for _ in range(views)]
            found = trunk(torch.cat([view.images for view in drawn]))  # (V n, C, s, s)
            maps[part] = found.unflatten(0, (views, -1)).transpose(0, 1).half().cpu().numpy()
            for i, group in enumerate(stack.tracked):
                g[part, :, i] = torch.stack([view.g[group.name] for view in drawn], 1).cpu().numpy()
            labels[part] = -1 if told is None else told.numpy()
            count += len(pixels)
        for file in files:
            file.flush()
        done = int(rows[-1]) + 1
        write_json(place / "state.json", {"done": done, "count": count, "whole": done == len(images)})


def _files(
    trunk: Trunk, images: Images, stack: Stack, views: int, place: Path, new: bool
) -> tuple[np.memmap[Any, Any], np.memmap[Any, Any], np.memmap[Any, Any]]:
    """The three arrays on disk: maps, g and labels; a full disk is said before it is too late."""
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "maps": ((len(images), views, trunk.channels, trunk.side, trunk.side), np.float16),
        "g": ((len(images), views, len(stack.tracked)), np.float32),
        "labels": ((len(images),), np.int64),
    }
    place.mkdir(parents=True, exist_ok=True)
    needed = 2 * int(np.prod(shapes["maps"][0]))
    free = shutil.disk_usage(place).free
    if new and needed > free:
        raise DuetError(
            f"the cached views need {needed / 1e9:.1f} GB and {place} has {free / 1e9:.1f}: set DUET_CACHE to another "
            "folder, or take fewer --cached-views, or a --grid of fewer places"
        )
    mode = "w+" if new else "r+"
    open_file = np.lib.format.open_memmap
    maps, g, labels = (
        open_file(place / f"{name}.npy", mode, dtype=None if not new else dtype, shape=shape if new else None)
        for name, (shape, dtype) in shapes.items()
    )
    return maps, g, labels
