"""Whether a record or a model is of the images that a run would be trained on now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..data.named import is_at_hand
from ..error import DuetError
from ..training.experiment import Experiment, data_of
from ..training.trained_images import images_to_train
from .plan import Run
from .record import FOLDER, Record

CHATTY = ("duet.data", "duet.training.calibration")
Look = Callable[[Experiment], dict[str, Any]]
"""From an experiment to count and fingerprint of the images that it would train on."""


def check_images(noted: Mapping[str, Any], run: Run, what: str, look: Look = images_to_train) -> None:
    """Refuse what was noted of other images than those at hand; what is unknown on either side is accepted.

    A stream opens without decoding. Images that cannot be read count in it, and not in memory: only where it differs
    are the images opened as the training would.
    """
    own = run.experiment
    if not noted or not is_at_hand(own.data):
        return
    here: dict[str, Any] = {}
    for storage in dict.fromkeys(("stream", own.storage)):
        try:
            with quiet_data():
                here = look(replace(own, storage=storage))
        except DuetError:  # they are not here, or not to be read: nothing can be said
            return
        if here == noted:
            return
    raise DuetError(
        f"{what} is of {_say(noted)}, and {own.data} now gives {_say(here)}: "
        "restore the former images, take another --out, or move that away to train on the new ones"
    )


def other_images(record: Record, run: Run, look: Look = images_to_train) -> str:
    """Why a finished record does not answer a run after all: it is of other images; "" where it is of the same."""
    try:
        check_images(record.images, run, f"its record {FOLDER}/{record.key}.json", look)
    except DuetError as error:
        return str(error)
    return ""


class Looked:
    """`images_to_train`, once for all runs of a study that train on the same images."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def __call__(self, experiment: Experiment) -> dict[str, Any]:
        """Count and fingerprint of what the experiment would train on."""
        named = data_of(experiment)
        if experiment.subset is None:
            named.pop("seed")
        key = repr((named, experiment.calibrates, experiment.joined_batch))
        if key not in self._found:
            self._found[key] = images_to_train(experiment)
        return self._found[key]


def _say(images: Mapping[str, Any]) -> str:
    return f"{images['count']} images ({images['fingerprint']})"


@contextmanager
def quiet_data() -> Iterator[None]:
    """What is opened need not be said for every run."""
    loggers = [logging.getLogger(name) for name in CHATTY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
