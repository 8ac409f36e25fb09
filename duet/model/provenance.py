"""What a model says of where it comes from: which images it was trained on, and what of it others may read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..error import DuetError

if TYPE_CHECKING:
    from .encoder import Encoder


def training_data(encoder: Encoder) -> dict[str, Any]:
    """The images that the model's provenance names, as arguments of `open_images`; none where it names none.

    A model may be a stranger's: what has another type than it should is refused.
    """
    told = encoder.provenance.get("data")
    kinds: dict[str, Any] = {
        **{"source": str, "image_size": int | None, "channels": int, "subset": int | None},
        **{"seed": int, "storage": str, "split": str},
    }
    found = {key: told[key] for key in kinds if key in told} if isinstance(told, Mapping) else {}
    for key, value in found.items():
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise DuetError(f"this model names its images by an odd {key}; name some with --data")
    return found


def without_places(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The same without where on a disk the images lay."""
    data = provenance.get("data")
    if not isinstance(data, Mapping) or "source" not in data:
        return dict(provenance)
    return {**provenance, "data": {**data, "source": PurePath(str(data["source"])).name or "images"}}
