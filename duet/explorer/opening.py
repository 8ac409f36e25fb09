"""What the page is about: a trained model, its decoders, and test images to pick from."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..data import open_images
from ..data.place import check_place, find_place
from ..error import LONGEST, DuetError, first_line
from ..file import from_home
from ..groups import Group
from ..model import Encoder, load, load_decoder, training_data
from ..networks.decoder import Decoder

if TYPE_CHECKING:
    from .neighbour import Bank

log = logging.getLogger(__name__)

IMAGES = 1000
"""Test images at most: those of the gallery, and those among which neighbours are sought."""


@dataclass(frozen=True)
class Explorer:
    """A model with its decoders by group, and test images uint8 (N,C,H,W) with their labels; none if `N` is 0."""

    encoder: Encoder
    decoders: Mapping[str, Decoder]
    images: Tensor
    labels: tuple[str, ...] = ()
    missing: str = ""  # why there are no test images
    run: str = ""  # what the model is called
    _banks: dict[str, Bank] = field(default_factory=dict, repr=False)

    @property
    def relative(self) -> bool:
        """Does the model know differences only?"""
        return self.encoder.relative

    @property
    def title(self) -> str:
        """The run, what it follows and in which images: "digits-rot360: rotation of digits"."""
        words = [self.called(name) for name in self.encoder.groups]
        followed = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        return f"{self.run or 'A model'}: {followed}" + (f" of {self.data}" if self.data else "")

    @property
    def data(self) -> str:
        """What the model's images are called; nothing if it does not say."""
        try:
            return PurePath(str(training_data(self.encoder).get("source", ""))).name
        except DuetError:
            return ""

    def group(self, name: str) -> Group:
        """One of the model's groups."""
        return self.encoder.groups[name]

    def called(self, name: str) -> str:
        """A group in plain words: "rotation", not "rot360"."""
        return self.group(name).title or name

    def tracks(self, name: str) -> bool:
        """Have the features columns for this group?"""
        return any(axis.name == name for axis in self.encoder.layout.axes)


def open_explorer(
    run: str | os.PathLike[str], device: str = "auto", turns: int | None = None, data: str | None = None
) -> Explorer:
    """Everything that the page needs of a trained run; what is missing is left out, and said.

    `data`: other images than the run's own; these must be there.
    """
    encoder = load(run, device, turns=turns)
    found = {name: load_decoder(run, name, device) for name in encoder.groups}
    decoders = {name: decoder for name, decoder in found.items() if decoder is not None}
    if data is not None:
        return Explorer(encoder, decoders, *_test_images(encoder, run, data), run=_name(run))
    try:
        return Explorer(encoder, decoders, *_test_images(encoder, run), run=_name(run))
    except (ValueError, OSError) as error:
        reason = first_line(error, longest=LONGEST)
        log.warning(
            "the model's test images cannot be opened: %s; the page takes images that are dropped on it", reason
        )
        none = torch.empty(0, encoder.channels, *image_size(encoder), dtype=torch.uint8)
        missing = f"The model's test images cannot be opened: {reason}. Drop an image of yours to explore it."
        return Explorer(encoder, decoders, none, missing=missing, run=_name(run))


def image_size(encoder: Encoder) -> tuple[int, int]:
    """(H, W) of the images that the model takes."""
    if encoder.image_size is None:
        raise DuetError("this model does not say which size of images it takes; give Encoder(..., image_size=...)")
    return encoder.image_size


def _test_images(
    encoder: Encoder, run: str | os.PathLike[str], other: str | None = None
) -> tuple[Tensor, tuple[str, ...]]:
    """Test images of the model's own set, or of another one as the model takes images, with their labels."""
    data = {**training_data(encoder), "subset": None, "split": "test"}
    if other is not None:
        side = encoder.image_size[0] if encoder.image_size and len(set(encoder.image_size)) == 1 else None
        data |= {"source": other, "channels": encoder.channels, "image_size": side}
    elif "source" not in data:
        raise DuetError("this model does not say which images it was trained on; name some with --data")
    else:
        data["source"] = find_place(run, data["source"])
        check_place(data["source"])
        if training_data(encoder).get("split") == "all":
            raise DuetError(
                "this model was trained on all its images, and none is left to show; name others with --data"
            )
    source: Any = open_images(**data)
    pixels, labels = next(source.batches(min(IMAGES, len(source)), seed=0, epoch=0, drop_last=False))
    if encoder.image_size is not None and pixels.shape[2:] != encoder.image_size:
        raise DuetError("they have another size than the model knows")
    if labels is None:
        return pixels, ()
    names = source.classes or ()
    return pixels, tuple(names[y] if 0 <= y < len(names) else "" if y < 0 else str(y) for y in labels.tolist())


def _name(run: str | os.PathLike[str]) -> str:
    """The last part of a run's path; of runs/mine/model it is mine."""
    path = from_home(run).resolve()
    return path.parent.name if path.name == "model" else path.name
