"""duet reproduce"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .command import JOBS, Command, whole
from .listing import List


class Reproduce(Command):
    """The paper's results, computed again."""

    name = "reproduce"
    summary = "compute a table or figure of the paper again"
    usage = "duet reproduce [NAME] [--scale cpu|cifar|paper] [--seeds N] [--only WORDS ...] [--out DIR] [option ...]"
    description = """Compute a result of the paper; without a name, list what there is.

  duet reproduce rrc-plus-one --dry-run                     # which runs, and what they cost
  duet reproduce rrc-plus-one --seeds 1                     # on 10,000 CIFAR-10 images, a minute a run
  duet reproduce rrc-plus-one --scale cifar                 # on all of CIFAR-10, fifteen minutes of a core a run
  duet reproduce full-stack --scale paper --only duet-rot4

What is finished is kept: stop it at any time and give the same command again."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Which result, and how large."""
        parser.add_argument("what", nargs="?", metavar="NAME", help="duet list reproductions")
        parser.add_argument("--scale", default="cpu", metavar="cpu|cifar|paper", help="how large [%(default)s]")
        parser.add_argument(
            "--seeds", type=whole(10**4), metavar="N", help="runs of every cell [3 of tables, 1 of figures]"
        )
        parser.add_argument(
            "--only", nargs="+", default=[], metavar="WORDS", help="runs with these words in their names"
        )
        parser.add_argument(
            "--out", type=Path, metavar="DIR", help="folder [runs/reproduce/SCALE, shared by all that have one]"
        )
        parser.add_argument("--jobs", type=JOBS, default=1, metavar="N", help="runs at a time [%(default)s]")
        parser.add_argument("--draw", action="store_true", help="draw from what is finished, and compute nothing")
        parser.add_argument("--dry-run", action="store_true", help="list the runs and what they cost, and leave")

    def run(self, args: argparse.Namespace) -> int:
        """Run one, or list them."""
        if args.what is None:
            return List().run(argparse.Namespace(kind="reproductions"))
        from ..paper.reproduction import Request, find_reproduction
        from ..study.runner import Unfinished

        reproduction = find_reproduction(args.what)
        out = args.out or Path("runs") / "reproduce" / (args.what if reproduction.apart else args.scale)
        only = tuple(args.only)
        how = {"device": args.device, "dry": args.dry_run, "jobs": args.jobs, "draw_only": args.draw}
        request = Request(out, args.scale, args.seeds, only, **how)
        try:
            reproduction.run(request)
        except Unfinished as unfinished:
            print(f"duet: {unfinished}", file=sys.stderr)
            return 1
        return 0
