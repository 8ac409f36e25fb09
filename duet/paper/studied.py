"""A result that a study's runs give: computed where they are missing, then drawn from their records."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from ..study.plan import Study, expand
from ..study.runner import Unfinished, preview, run_study
from .reproduction import Reproduction, Request


class Studied(Reproduction):
    """Its experiments are the plain values of a study; how they are drawn is its own."""

    @abstractmethod
    def values(self, request: Request) -> dict[str, Any]:
        """The study's plain values, but for the seeds."""

    @abstractmethod
    def draw(self, request: Request) -> list[Path]:
        """Tables and figures of all runs that are finished."""

    def study(self, request: Request) -> Study:
        """All runs: of the first seed first."""
        values = self.values(request)
        vary = {"seed": list(range(self.seeds(request))), **values["vary"]}
        return expand({**values, "vary": vary}, self.name, self.name)

    def run(self, request: Request) -> None:
        """Compute, and draw from the records; also what there is, when some runs failed."""
        study = self.study(request).only(request.only)
        if request.dry:
            print(preview(study, request.out, request.jobs))
            return
        outcome = None
        if not request.draw_only:
            outcome = run_study(study, request.out, device=request.device, jobs=request.jobs)
        for path in self.draw(request):
            print(path)
        if outcome is not None and outcome.failed:
            raise Unfinished(outcome)
