"""duet align"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..error import printable
from .command import TURNED, Command, add_images, add_turned_copies, open_model

TURNS = 4
PIXELS = "pixels"
NAMED = 5
"""Folders that a line names."""


class Align(Command):
    """Bring image files to one common angle."""

    name = "align"
    summary = "bring image files to one common angle, where there is no upright"
    description = """Estimate how far each image is turned from an angle that all have in common, in degrees
counter-clockwise, and write copies turned back. For images that have no upright: plankton, cells, galaxies, aerial
images. No labels are needed, and no model: without --model the images are compared by their own pixels. A model of such
images reads them by what it has learned; try both, and see whose mean is sharper.

  duet align cells/ -o aligned/
  duet align plankton/ -o aligned/ --by-class --csv angles.csv
  duet align round/ long/ -o aligned/ --by-class
  duet align cells/ -o by-model/ --model runs/duet-rot360-cells

The mean of the images before and after is drawn in aligned/mean.png: if it became sharp, it worked. All copies are
turned; the table marks those whose angle is right to 45 degrees with a probability of 0.9 or more. The originals
stay."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Images, model, and where copies, angles and the picture go."""
        add_images(parser, f"or {PIXELS} [{PIXELS}]")
        add_turned_copies(
            parser,
            "turned",
            "path, degrees, probability, sure",
            "probability from which on an angle is marked as sure [%(default)s]",
        )
        parser.add_argument(
            "--picture", type=Path, metavar="FILE", help="the means before and after, as PNG [DIR/mean.png]"
        )
        parser.add_argument(
            "--by-class",
            action="store_true",
            help="align each class separately: each sub-folder of one folder, or each of several folders",
        )
        parser.add_argument(
            "--group", metavar="rot360|rot4", help="any angle, or quarter turns only [the model's own, else rot360]"
        )
        parser.add_argument(
            "--turns",
            type=TURNED,
            default=TURNS,
            metavar="N",
            help="turned copies of each image to look at [%(default)s]",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Align, and say how many."""
        from ..application import align_files
        from ..application.orientation import STDOUT

        done = align_files(
            args.images,
            None if args.model in (None, PIXELS) else open_model(args),
            args.out,
            args.csv,
            args.picture,
            args.group,
            args.by_class,
            args.sure,
            args.turns,
            args.batch_size,
            expand=args.expand,
        )
        piped = args.csv == STDOUT
        written = (args.out, None if piped else args.csv, done.picture)
        where = ", ".join(printable(path) for path in written if path is not None)
        sets = f" in {len(done.sets)} sets ({_named([one.name for one in done.sets])}), each" if args.by_class else ""
        if done.merged:
            sets = f" of {len(done.merged)} folders ({_named(done.merged)}), merged into one set,"
        print(
            f"{done.readable} images{sets} brought to one angle, {done.sure} of them surely; "
            f"their variance around the mean {_change(done.fall)}{': ' if where else ''}{where}",
            file=sys.stderr if piped else sys.stdout,
        )
        return 0


def _named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(name or "no sub-folder" for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def _change(fall: float) -> str:
    return f"fell by {fall:.0%}" if fall >= 0 else f"rose by {-fall:.0%}"
