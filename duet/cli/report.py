"""duet report"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..error import printable
from .command import Command


class Report(Command):
    """One page about runs."""

    name = "report"
    summary = "write one page about one run, or several side by side"
    description = """Write one self-contained HTML page about one run, or several side by side: every number and figure
that `duet evaluate` left, and what it means. Folders of results alone, as `duet evaluate --out` writes them, do too.

  duet report runs/duet-rot360-digits
  duet report runs/demo/duet runs/demo/simclr -o both.html

--images shows images of your own as well: before, after as the model would turn them upright, and how sure it is, the
least sure first. They stay as they are.

  duet report runs/duet-rot360-photos --images photos/"""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """The runs and the page."""
        parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder, or one of results")
        parser.add_argument(
            "-o", "--out", type=Path, metavar="FILE", help="the page (default: RUN/report.html, of several report.html)"
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
        from ..report import write_report

        default = args.runs[0] / "report.html" if len(args.runs) == 1 else Path("report.html")
        print(f"The report is in {printable(write_report(args.runs, args.out or default, args.images, args.device))}")
        return 0
