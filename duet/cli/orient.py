"""duet orient"""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import Command, add_images, open_model

SURE = 0.9


class Orient(Command):
    """Turn image files upright."""

    name = "orient"
    summary = "turn image files upright"
    description = """Estimate how far each image is turned from the model's upright, in degrees counter-clockwise, and
write copies turned back. Only what is surely known is turned: an image of the kind that the model was trained on, whose
angle is right to 45 degrees with a probability of 0.9 or more. The other copies stay as they are.

  duet orient scans/ -o upright/ --model runs/duet-rot360-scans
  duet orient scans/ --csv angles.csv --model runs/duet-rot360-scans
  duet orient scans/ -o upright/ --csv angles.csv --sure 0.99 --model runs/duet-rot360-scans

The originals stay. Copies keep name, format and size; corners that the image does not reach are black."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Images, model, and where copies and angles go."""
        add_images(parser)
        parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="folder for the corrected copies")
        parser.add_argument("--csv", type=Path, metavar="FILE", help="table with path, degrees, probability, sure")
        parser.add_argument(
            "--sure", type=float, default=SURE, metavar="P", help="probability that counts as sure [%(default)s]"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Orient, and say how many."""
        from ..application import orient_files

        done = orient_files(args.images, open_model(args), args.out, args.csv, args.sure, args.batch_size)
        where = ", ".join(str(path) for path in (args.out, args.csv) if path is not None)
        turned = "turned upright" if args.out is not None else "sure enough to turn"
        parts = [f"{done.turned} of {done.readable} images {turned}"]
        parts += [f"{done.unsure} not sure"] if done.unsure else []
        parts += [f"{done.strange} of another kind than the model knows"] if done.strange else []
        print(f"{', '.join(parts)}: {where}")
        return 0
