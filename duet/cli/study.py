"""duet study"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..error import DuetError, printable
from .command import JOBS, Command, key_values

FORMATS = ("markdown", "csv", "latex", "png")


class Study(Command):
    """Many runs from one file."""

    name = "study"
    summary = "many runs from one file: run them, and draw tables of them"
    usage = "duet study run|commands FILE --out DIR [option ...] | duet study table DIR [option ...]"
    description = """Train and evaluate every combination of a study's values, and leave one JSON a run.

  duet study run my.yaml --out runs/my --dry-run       # the runs and what they cost
  duet study run my.yaml --out runs/my --jobs 4        # finished runs are skipped, broken ones resumed
  duet study run my.yaml --out runs/my --engine ray    # on a cluster (extra `cluster`)
  duet study commands my.yaml --out runs/my            # one line a run, for a scheduler of yours
  duet study table runs/my --rows method --columns group --value classification/logistic

my.yaml:
  base: {preset: demo, epochs: 2}
  vary:
    method: [simclr, {name: duet0, method: duet, weight: 0}, duet]
    seed: [0, 1, 2]
  evaluate: [classification]"""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """What to do, and what is special to it."""
        parser.add_argument("action", choices=tuple(ACTIONS), metavar="run|commands|table", help="what to do")
        parser.add_argument("path", type=Path, metavar="FILE|DIR", help="the study; for table the folder of its runs")
        runs = parser.add_argument_group("run, commands")
        runs.add_argument("--out", type=Path, metavar="DIR", help="where runs and results go; required")
        runs.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="runs with these words in their names")
        runs.add_argument("--dry-run", action="store_true", help="list the runs and what they cost, and leave")
        runs.add_argument(
            "--jobs", type=JOBS, default=1, metavar="N", help="runs at a time, the threads shared out [%(default)s]"
        )
        runs.add_argument("--engine", default="local", metavar="local|ray", help="who computes [%(default)s]")
        runs.add_argument(
            "--keep",
            default="model",
            metavar="none|model|all",
            help="what stays of a run [%(default)s]",
        )
        tables = parser.add_argument_group("table")
        tables.add_argument("--rows", default="method", metavar="KEY", help="what the rows are [%(default)s]")
        tables.add_argument("--columns", default="group", metavar="KEY", help="what the columns are [%(default)s]")
        tables.add_argument(
            "--value", default="classification/logistic", metavar="EVALUATION/SCALAR", help="the number [%(default)s]"
        )
        tables.add_argument("--where", nargs="+", default=[], metavar="KEY=VALUE", help="of these runs only")
        tables.add_argument("--percent", action="store_true", help="a hundred times the number")
        tables.add_argument("--lowest", action="store_true", help="the lowest number is the best")
        tables.add_argument("--format", choices=FORMATS, default="markdown", help="[%(default)s]")
        tables.add_argument("--file", type=Path, metavar="FILE", help="write it there; png needs one")

    def run(self, args: argparse.Namespace) -> int:
        """Do it."""
        return int(ACTIONS[args.action](args))


def _run(args: argparse.Namespace) -> int:
    from ..study.runner import preview, run_study

    study, out = _study(args)
    if args.dry_run:
        print(preview(study, out, args.jobs))
        return 0
    outcome = run_study(
        study, out, device=args.device, keep=args.keep, jobs=args.jobs, engine=args.engine, plugins=args.plugin
    )
    where = printable(out / "results")
    print(f"{len(outcome.done)} of {len(study.runs)} runs are finished; their results are in {where}")
    for name, why in outcome.failed.items():
        print(f"duet: {printable(name)} failed: {printable(why)}", file=sys.stderr)
    return outcome.code


def _commands(args: argparse.Namespace) -> int:
    from ..study.command import command_lines

    for line in command_lines(*_study(args)):
        print(line)
    return 0


def _table(args: argparse.Namespace) -> int:
    from ..study.form import as_csv, as_latex, as_markdown
    from ..study.record import read_records
    from ..study.table import tabulate

    if not args.path.is_dir():
        raise DuetError(f"{args.path} is no folder of a study; give what --out of duet study run was")
    where = key_values(args.where, "--where")
    table = tabulate(read_records(args.path), args.rows, args.columns, args.value, where)
    table = table.with_best(args.lowest).times(100 if args.percent else 1)
    if args.format == "png":
        from ..study.drawing import save_table

        if args.file is None:
            raise DuetError("a picture needs a file: --file table.png")
        save_table(table, args.file)
        return 0
    text = {"markdown": as_markdown, "csv": as_csv, "latex": as_latex}[args.format](table)
    if args.file is None:
        print(text, end="")
        return 0
    from ..file import write_text

    write_text(args.file, text)
    return 0


def _study(args: argparse.Namespace) -> tuple[Any, Path]:
    from ..study.plan import read_study

    if args.out is None:
        raise DuetError("say where the runs go: --out DIR")
    return read_study(args.path).only(args.only), args.out


ACTIONS = {"run": _run, "commands": _commands, "table": _table}
