"""A process that computes one run, as plain values on standard input say; a failure is the last line it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .computation import Failure
from .local import do_job


def main() -> int:
    """Compute the run and leave its record in the study's folder."""
    job = json.load(sys.stdin)
    outcome = do_job(job, Path(job["out"]))
    if isinstance(outcome, Failure):
        print(outcome.why, file=sys.stderr)
    return int(isinstance(outcome, Failure))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
