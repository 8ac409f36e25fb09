"""Image folders: flat, with class sub-folders, with train/ and test/ sub-folders."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..error import DuetError
from .decoding import Encoded
from .source import Source, Splits

SUFFIXES = (".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}


class Files:
    """Image files below one folder."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        self._root = root
        # One array, not a list of strings: forked workers would copy every page that holds a reference count.
        self._paths = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Encoded:
        return self._root / os.fsdecode(bytes(self._paths[index]))

    def name(self, index: int) -> str:
        return bytes(self._paths[index]).decode("utf-8", "backslashreplace")


def open_folder(root: Path) -> Splits:
    """The splits of an image folder: its train/, test/ and val/ sub-folders, or "all" when there is no train/."""
    if not root.is_dir():
        raise DuetError(f"{root} is not a folder")
    parts = {SPLIT_NAMES.get(part.name.lower()): part for part in sorted(root.iterdir()) if part.is_dir()}
    named = {split: part for split, part in parts.items() if split is not None}
    if "train" not in named:
        named = {"all": root}
    classes = sorted({c for part in named.values() for c in _class_names(part)})
    return {split: partial(_open_part, part, classes) for split, part in named.items()}


def _open_part(root: Path, classes: list[str]) -> Source:
    paths = sorted(image_paths(root))
    if not paths:
        raise DuetError(f"no images in {root}: expected files that end in {' '.join(SUFFIXES)}")
    # A single class says nothing: the images of one sub-folder are simply unlabelled.
    if len(classes) < 2:
        return Source(Files(root, paths))
    number = {name: index for index, name in enumerate(classes)}
    # An image beside the class folders belongs to none of them, nor does a folder that cannot be opened.
    labels = [number.get(path.split(os.sep)[0], -1) if os.sep in path else -1 for path in paths]
    return Source(Files(root, paths), torch.tensor(labels), tuple(classes))


def _class_names(root: Path) -> Iterator[str]:
    for part in root.iterdir():
        if part.is_dir() and not part.name.startswith(".") and any(map(os.path.isfile, _below(part))):
            yield part.name


def _below(root: Path) -> Iterator[Path]:
    return (root / name for name in image_paths(root))


def image_paths(root: Path, suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[str]:
    """Paths below `root`, relative to it, in order; links are followed, but no folder is entered twice.

    A folder that cannot be opened stands for what is in it: whoever reads it is told why not, and counts it.
    """
    seen: set[tuple[int, int]] = set()
    closed: list[OSError] = []
    for folder, subfolders, files in os.walk(root, onerror=closed.append, followlinks=True):
        yield from _closed(closed, root)
        info = os.stat(folder)
        if (info.st_dev, info.st_ino) in seen:
            subfolders.clear()
            continue
        seen.add((info.st_dev, info.st_ino))
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        below = os.path.relpath(folder, root)
        for name in sorted(files):
            # Regular files only: opening a pipe that ends in .jpg would wait for ever.
            wanted = not name.startswith(".") and os.path.splitext(name)[1].lower() in suffixes
            if wanted and os.path.isfile(os.path.join(folder, name)):
                yield name if below == os.curdir else os.path.join(below, name)
    yield from _closed(closed, root)


def _closed(errors: list[OSError], root: Path) -> Iterator[str]:
    """The folders that were not opened since the last question."""
    while errors:
        yield os.path.relpath(os.fspath(errors.pop(0).filename), root)
