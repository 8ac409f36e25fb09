"""duet report"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..error import DuetError, did_you_mean, printable
from ..file import does_not_exist
from .command import Command


class Report(Command):
    """One page about runs."""

    name = "report"
    summary = "write one page about one run, or several side by side"
    description = """Write one self-contained HTML page about one run, or several side by side: every number and figure
that `duet evaluate` left, and what it means. Folders of results alone, as `duet evaluate --out` writes them, do too,
and so do the names of shipped models.

  duet report runs/duet-rot360-digits
  duet report runs/demo/duet runs/demo/simclr -o both.html

--images shows images of your own as well: before, after as the model would turn them upright, and how sure it is, the
least sure first. They stay as they are.

  duet report runs/duet-rot360-photos --images photos/
  duet report photos-rot360 --images photos/"""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """The runs and the page."""
        parser.add_argument(
            "runs", type=Path, nargs="+", metavar="RUN", help="a run's folder, one of results, or a shipped model"
        )
        parser.add_argument(
            *("-o", "--out"),
            type=Path,
            metavar="FILE",
            help="the page (default: RUN/report.html, of several or of a shipped model report.html)",
        )

        parser.add_argument(
            "--images",
            nargs="+",
            default=[],
            metavar="IMAGES",
            help="show these too: image files, or folders of them",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Write the page."""
        from .. import paper  # noqa: F401 - its evaluations register themselves
        from ..model.hub import find_model, shipped_models
        from ..report import write_report

        shipped = {Path(name): find_model(name) for name in shipped_models() if not Path(name).exists()}
        runs = [shipped.get(run, run) for run in args.runs]
        for run in runs:
            if not run.exists():
                hint = did_you_mean(str(run), shipped_models())
                raise DuetError(does_not_exist(run) if not hint else f"{run} does not exist{hint}")
        own = len(runs) == 1 and args.runs[0] not in shipped
        page = args.out or (runs[0] / "report.html" if own else Path("report.html"))
        print(f"The report is in {printable(write_report(runs, page, args.images, args.device))}")
        return 0
