"""duet embed"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..error import printable
from .command import Command, add_images, add_turns, open_model


class Embed(Command):
    """Features of image files."""

    name = "embed"
    summary = "features of image files, as a table"
    description = """Write one row for each image that can be read: path, features, and for each group of the model its
estimated parameter and spread in the group's own unit, in the columns <group> and <group>_spread. A calibrated model
also says which of them to trust, in <group>_sure and <group>_probability.

  duet embed photos/ -o photos.parquet --model runs/duet-rot360-photos
  duet embed photos/ -o photos.csv --model photos-rot360
  duet embed 3.png 7.png -o two.npz --model digits-rot360

Files stream through: millions of them need no more memory than a thousand. What cannot be read is named and left
out."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Images, model, and where the table goes."""
        add_images(parser)
        add_turns(parser)
        parser.add_argument(
            "-o", "--out", type=Path, required=True, metavar="FILE", help="a table: .parquet, .csv or .npz"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Embed, and say how many."""
        from ..application import embed_files
        from ..application.writer import check_ending

        check_ending(args.out)

        rows = embed_files(args.images, args.out, open_model(args, args.turns), args.batch_size)
        print(f"{rows} {'image' if rows == 1 else 'images'}: {printable(args.out)}")
        return 0
