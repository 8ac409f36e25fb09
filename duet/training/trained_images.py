"""On which images a run is trained: noted in its folder when training begins, so that a later record can say it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ..data import Images
from ..data.identity import identity_of
from ..error import DuetError
from ..file import write_json
from .calibration import Kept, keep_aside
from .experiment import Experiment, open_data

log = logging.getLogger(__name__)

FILE = "images.json"
LONGEST = 1_000
"""Bytes that are read of it."""
CHECKPOINT = Path("checkpoints") / "last.safetensors"


def note_images(run: Path, images: Images) -> None:
    """Write count and fingerprint of the images (those of calibration are left out) when training starts at step 0."""
    if not (run / CHECKPOINT).exists():  # a run of before, which noted nothing, may have begun on others
        write_json(run / FILE, identity_of(images))


def keep_aside_for(run: Path, experiment: Experiment, images: Images) -> Kept:
    """The images of a run to train on, and those kept aside; a run that goes on keeps aside what it did before.

    Models of differences were once trained without the tenth that calibrates others.
    """
    kept = keep_aside(images, experiment.calibrates, experiment.joined_batch)
    if experiment.calibrate and not experiment.calibrates:
        kept = kept._replace(words="none: a model of differences has no reading to judge; all images were trained on")
    begun = images_of_run(run) if (run / CHECKPOINT).exists() else {}
    if experiment.calibrate and not experiment.calibrates and begun.get("count") != len(kept.trained):
        before = keep_aside(images, True, experiment.joined_batch)
        return before if begun.get("count") == len(before.trained) else kept
    return kept


def check_same_images(run: Path, images: Images) -> None:
    """Refuse to resume on as many other images. (Another number of images is refused by the checkpoint itself.)"""
    before = images_of_run(run) if (run / CHECKPOINT).exists() else {}
    if before.get("count") == len(images) and before != identity_of(images):
        raise DuetError(
            f"{run} began with {len(images)} other images than there are now; restore them, or begin a new run"
        )


def images_of_run(run: Path) -> dict[str, Any]:
    """Count and fingerprint of the images that a run was trained on; nothing where the run did not note them."""
    path = run / FILE
    if not path.exists():
        return {}
    try:
        with path.open("rb") as file:
            return checked_images(json.loads(file.read(LONGEST)))
    except (OSError, ValueError, TypeError, RecursionError):
        log.warning("%s cannot be read: on which images the run was trained is not known", path)
        return {}


def checked_images(plain: Any) -> dict[str, Any]:
    """Count and fingerprint as plain values, or nothing; a TypeError where they are something else."""
    if plain == {}:
        return {}
    if not isinstance(plain, dict) or set(plain) != {"count", "fingerprint"}:
        raise TypeError("images are a count and a fingerprint")
    count, fingerprint = plain["count"], plain["fingerprint"]
    if type(count) is not int or count < 0 or not isinstance(fingerprint, str) or len(fingerprint) > 64:
        raise TypeError("images are a count and a fingerprint")
    return dict(plain)


def images_to_train(experiment: Experiment) -> dict[str, Any]:
    """Count and fingerprint of the images that a training would take now."""
    images = open_data(experiment)
    return identity_of(keep_aside(images, experiment.calibrates, experiment.joined_batch).trained)
