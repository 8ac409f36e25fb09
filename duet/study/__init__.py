"""Many runs: a study expands to runs, skips finished ones, resumes broken ones, and is drawn from one JSON a run."""

from .plan import Run, Study, expand, read_study
from .record import Record, read_records

__all__ = ["Record", "Run", "Study", "expand", "read_records", "read_study"]
