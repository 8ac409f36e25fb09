"""duet orient"""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import Command, add_images
from .embed import MODEL


class Orient(Command):
    """Turn image files upright."""

    name = "orient"
    summary = "turn image files upright"
    description = """Estimate how far each image is turned from the model's upright, in degrees counter-clockwise, and
write copies turned back. Where the spread is above the threshold the copy is left as it is.

  duet orient scans/ -o upright/
  duet orient scans/ --csv angles.csv
  duet orient scans/ -o upright/ --csv angles.csv --threshold 50

The originals stay. Copies keep name, format and size; corners that the image does not reach are black."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Images, model, and where copies and angles go."""
        add_images(parser, MODEL)
        parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="folder for the corrected copies")
        parser.add_argument("--csv", type=Path, metavar="FILE", help="table with path, angle, spread, corrected")
        parser.add_argument(
            "--threshold",
            type=float,
            metavar="DEGREES",
            help="largest spread that counts as sure "
            "[halfway between a certain and an ignorant marginal: 69 for 8 bins]",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Orient, and say how many."""
        from ..application import orient_files
        from ..model import load

        encoder = load(args.model, args.device)
        done = orient_files(args.images, encoder, args.out, args.csv, args.threshold, args.batch_size)
        where = ", ".join(str(path) for path in (args.out, args.csv) if path is not None)
        turned = "turned upright" if args.out is not None else "sure enough to turn"
        others = ", the others left alone" if 0 < done.corrected < done.readable else ""
        print(f"{done.corrected} of {done.readable} images {turned}{others}: {where}")
        return 0
