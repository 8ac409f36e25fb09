"""All runs of a study on this machine, one after another or several at a time."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..error import DuetError, first_line
from ..training.keeper import Stopped
from .computation import check_keep, compute, tidy
from .plan import Study
from .record import Record, finished

log = logging.getLogger(__name__)


@dataclass
class Outcome:
    """What became of the runs of a study, by their names."""

    done: dict[str, Record] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # name -> why

    @property
    def code(self) -> int:
        """The exit code: 1 if a run is missing."""
        return int(bool(self.failed))


def run_study(study: Study, out: Path, *, device: str = "auto", keep: str = "model") -> Outcome:
    """Compute every run that is not finished; what fails is said and does not stop the others."""
    check_keep(keep)
    outcome = Outcome()
    for place, run in enumerate(study.runs, 1):
        record = finished(out, run)
        if record is not None:
            tidy(run, out, keep)
            outcome.done[run.name] = record
            continue
        began = time.monotonic()
        try:
            outcome.done[run.name] = compute(run, out, device, keep)
        except Stopped:
            raise KeyboardInterrupt from None
        except Exception as error:  # whatever a run dies of, the others can be computed
            log.debug("%s failed", run.name, exc_info=not isinstance(error, DuetError))
            outcome.failed[run.name] = first_line(error)
            log.info("%d/%d %s failed: %s", place, len(study.runs), run.name, first_line(error))
            continue
        log.info("%d/%d %s, %.0f s", place, len(study.runs), run.name, time.monotonic() - began)
    return outcome
