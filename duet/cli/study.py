"""duet study"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .command import Command, Parser


class Study(Command):
    """Many runs from one file."""

    name = "study"
    summary = "many runs from one file: run them, and draw tables of them"
    usage = "duet study run FILE --out DIR [option ...]"
    description = """Train and evaluate every combination of a study's values, one JSON a run.

  base: {preset: demo, epochs: 2}
  vary:
    method: [simclr, {name: duet0, method: duet, weight: 0}, duet]
    seed: [0, 1, 2]

  duet study run my.yaml --out runs/my      # finished runs are skipped, broken ones resumed"""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """What to do, and its own options."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
        run = actions.add_parser("run", help="compute all runs that are not finished", allow_abbrev=False)
        _add_file(run)
        run.set_defaults(act=_run)
        run.add_argument("--keep", default="model", metavar="none|model|all", help="what stays of a run [%(default)s]")

    def run(self, args: argparse.Namespace) -> int:
        """Do it."""
        return int(args.act(args))


def _add_file(parser: Any) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the study, a YAML file")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where runs and results go")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="runs with these words in their names")


def _run(args: argparse.Namespace) -> int:
    from ..study.plan import read_study
    from ..study.runner import run_study

    study = read_study(args.file).only(args.only)
    outcome = run_study(study, args.out, device=args.device, keep=args.keep)
    print(f"{len(outcome.done)} of {len(study.runs)} runs are finished; their results are in {args.out / 'results'}")
    for name, why in outcome.failed.items():
        print(f"duet: {name} failed: {why}", file=sys.stderr)
    return outcome.code
