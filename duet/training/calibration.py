"""The tenth of the images that a run keeps aside, to find out afterwards how sure its model may be."""

from __future__ import annotations

import logging
from typing import NamedTuple

from ..data import Images
from ..data.split import CALIBRATION_SHARE, calibration_part
from ..model import Encoder, fit_confidence
from ..model.calibration import LEAST_IMAGES

log = logging.getLogger(__name__)


def split_in_words(images: Images, kept: Kept) -> str:
    """How many images train, calibrate and test: "1,080 train / 120 calibration / 300 test (held out; ...)"."""
    parts = [f"{len(kept.trained):,} train"]
    flags = []
    if kept.aside is not None:
        parts.append(f"{len(kept.aside):,} calibration")
        flags.append("--no-calibrate")
    if images.held_out:
        parts.append(f"{images.held_out:,} test")
        flags.insert(0, "--split")
    said = ["held out"] if images.held_out else ["nothing is held out for tests"] if images.held_out == 0 else []
    said += [f"{' and '.join(flags)} to change"] if flags else []
    return " / ".join(parts) + (f" ({'; '.join(said)})" if said else "")


class Kept(NamedTuple):
    """The images to train on, those kept aside or None, and which they are in words."""

    trained: Images
    aside: Images | None
    words: str


def keep_aside(images: Images, calibrate: bool, batch_size: int) -> Kept:
    """A tenth of every class, chosen by a hash of each image; nothing where that would be too few.

    The same for every method, seed and process, so that what is compared was trained on the same images.
    """
    count = round(CALIBRATION_SHARE * len(images))
    if not calibrate:
        return Kept(images, None, "none: all images were trained on")
    if count < LEAST_IMAGES:
        reason = f"a tenth of {len(images)} images is {count}, and fewer than {LEAST_IMAGES} tell too little"
    elif len(images) - count < batch_size:
        reason = f"the {len(images) - count} images left would make no batch of {batch_size}"
    else:
        aside = calibration_part(images.identities(), images.labels)
        return Kept(
            images.part((~aside).nonzero().flatten()),
            images.part(aside.nonzero().flatten(), "calibration"),
            f"on {count} images that were not trained on",
        )
    log.info("the model will not tell how sure it is: %s", reason)
    return Kept(images, None, f"none: {reason}")


def calibrate(encoder: Encoder, kept: Kept, seed: int) -> None:
    """Give an encoder its confidence, where there is something to fit, and say in its provenance whether it has one.

    One that looks at turned copies has another for a single look: those probabilities would not be the same.
    """
    words = kept.words
    if kept.aside is not None:
        for turns in sorted({1, encoder.turns}):
            with encoder.looking(turns):
                confidence = fit_confidence(encoder, kept.trained, kept.aside, seed)
            if confidence is not None:
                encoder.add_confidence(confidence, turns)
        if not encoder.confidences:
            words = f"none: no reading to judge; {len(kept.aside)} images were not trained on, as for any method"
    encoder.provenance["calibration"] = words
