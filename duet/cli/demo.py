"""duet demo"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..error import printable
from .command import Command


class Demo(Command):
    """From nothing to a picture."""

    name = "demo"
    summary = "train on digits, evaluate, and draw what was learned"

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Where it goes."""
        parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder [%(default)s]")

    def run(self, args: argparse.Namespace) -> int:
        """Train both methods, measure, draw, report."""
        from ..paper.demo import COMPARED, run_demo
        from ..report import write_report

        run_demo(args.out, device=args.device)
        write_report([args.out / name for name in COMPARED], args.out / "report.html")
        print(f"Open {printable(args.out / 'report.html')} in a browser: every figure, and what it means")
        return 0
