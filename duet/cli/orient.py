"""duet orient"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..error import DuetError, printable
from .command import Command, add_images, add_turned_copies, add_turns, open_model

if TYPE_CHECKING:
    from ..model import Encoder

SURE_QUARTER, SURE_ANGLE, LEAST_TILT = 0.95, 0.95, 4.0


class Orient(Command):
    """Turn image files upright."""

    name = "orient"
    summary = "turn image files upright"
    description = """Rotate photos that stand on the wrong side by quarter turns. Alone, the command counts and
writes nothing; -o writes copies, --in-place replaces the files and keeps the originals.

  duet orient photos/                            count only: a dry run
  duet orient photos/ -o upright/                copies, in the same folders, names and formats
  duet orient photos/ --in-place                 the files themselves
  duet orient photos/ --undo                     put the originals back

No pixel is touched: the orientation tag is set where the format has one (JPEG, PNG, WebP, TIFF), and pixels are moved
where that loses nothing (BMP, GIF, PPM). Only what is sure is rotated; the rest stays byte by byte, and modification
times stay. Of test photos of scenes and pets the shipped model decides
86 % with 0.1 % wrong; of objects 40 % with 3.3 % wrong.

Any angle, such as a tilted horizon, is asked for:

  duet orient scans/ -o upright/ --any-angle --model runs/duet-rot360-scans
  duet orient photos/ -o level/ --range 15       tilts of at most 15 degrees to either side

An image is then rotated where the remaining tilt is smaller than the present one with a probability of 0.95 or more;
that changes its pixels. Corners that the image does not reach take the colour of its edge, and what turns out of the
frame is cut unless --expand makes the copy larger.

All angles are counter-clockwise: an image at +90 lies on its left side, and is rotated clockwise to stand."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Images, model, what to read, and where copies and angles go."""
        add_images(parser, "otherwise the shipped one that knows these images, if any does")
        add_turns(parser)
        add_turned_copies(
            parser,
            "corrected",
            "path, degrees, probability, sure, result",
            "probability from which on an image is rotated: that the quarter turn is right, or with --any-angle that "
            f"the tilt becomes smaller [{SURE_QUARTER:g}, --any-angle {SURE_ANGLE:g}]",
            None,
        )
        parser.add_argument(
            "--sheet", type=Path, metavar="FILE", help="page (.html) with images before and after, the least sure first"
        )
        angles = parser.add_mutually_exclusive_group()
        angles.add_argument(
            "--snap",
            type=int,
            choices=[90],
            default=90,
            metavar="90",
            help="decide between quarter turns [the default]",
        )
        angles.add_argument("--any-angle", action="store_true", help="rotate by any angle")
        angles.add_argument(
            "--range", type=float, metavar="DEGREES", help="any angle, but tilts of at most so much to either side"
        )
        parser.add_argument(
            "--least",
            type=float,
            metavar="DEGREES",
            help=f"leave what is turned by less as it is [{LEAST_TILT:g} with --any-angle and --range]",
        )
        parser.add_argument(
            "--write",
            choices=["auto", "pixels", "exif", "none"],
            default="auto",
            help="auto: quarter turns touch no pixel; pixels: encode again; exif: the tag only; none: report alone "
            "[%(default)s]",
        )
        parser.add_argument("--in-place", action="store_true", help="replace the files; the originals are kept")
        parser.add_argument("--undo", action="store_true", help="put back what --in-place replaced")
        parser.add_argument("--forget", action="store_true", help="delete the originals that --in-place kept")

    def run(self, args: argparse.Namespace) -> int:
        """Orient, and say how many."""
        if args.undo or args.forget:
            return _take_back(args)
        from ..application import orient_files
        from ..application.destination import check_apart, check_report
        from ..application.files import find_files
        from ..application.orientation import STDOUT, check_outputs
        from ..application.sheet import Sheet

        # Before a model is chosen, which looks at images.
        check_outputs(args.out, args.write, args.in_place)
        piped = args.csv == STDOUT
        check_apart({"--csv": None if piped else args.csv, "--sheet": args.sheet})
        sheet = None
        if args.sheet is not None:
            check_report(args.sheet, "--sheet", list(find_files(args.images)))
            if args.sheet.suffix.lower() not in (".html", ".htm"):
                raise DuetError(f"--sheet is a page: let the name of {args.sheet} end in .html")
            sheet = Sheet()
        any_angle = args.any_angle or args.range is not None
        done = orient_files(
            args.images,
            _model(args, any_angle),
            args.out,
            args.csv,
            args.sure,
            args.batch_size,
            any_angle=any_angle,
            span=args.range,
            write=args.write,
            in_place=args.in_place,
            sheet=sheet,
            least=args.least,
            expand=args.expand,
        )
        writes = args.out is not None or args.in_place
        if sheet is not None:
            from ..report.sheet import write_sheet

            write_sheet(sheet, done, args.sheet, writes)
        written = (args.out, None if piped else args.csv, args.sheet)
        where = ", ".join(printable(path) for path in written if path is not None)
        said = sys.stderr if piped else sys.stdout
        print(f"{done.words(writes)}{': ' if where else ''}{where}", file=said)
        if done.foreign and args.sure is None:
            print(
                "the model is sure of few of these images: they seem to be of a kind that it does not know",
                file=sys.stderr,
            )
        if not writes and done.rotated and args.write != "none":
            print("no image was written: -o DIR writes copies, --in-place replaces the files", file=sys.stderr)
        return 0


def _model(args: argparse.Namespace, any_angle: bool) -> Encoder:
    """The model that was named, or the shipped one that knows such images."""
    if args.model is not None:
        return open_model(args, args.turns)
    from ..application.choice import choose_model

    choice = choose_model(args.images, args.device, args.turns, any_angle)
    print(choice, file=sys.stderr)
    return choice.encoder


def _take_back(args: argparse.Namespace) -> int:
    if args.undo and args.forget:
        raise DuetError("--undo puts the originals back, --forget deletes them: give one of them")
    from ..application.journal import forget, journal_of, undo

    count = 0
    left: list[str] = []
    for given in map(Path, args.images):
        file = None if given.is_dir() else given.absolute()
        if args.undo:
            done = undo(given) if file is None else undo(journal_of(file), file)
            count, left = count + done.restored, left + done.left
        elif file is not None:
            raise DuetError("--forget takes folders: it deletes all originals that are kept in them")
        else:
            count += forget(given)
    for line in left:
        print(f"duet: left alone: {line}", file=sys.stderr)
    print(f"{count} {'file' if count == 1 else 'files'} {'put back' if args.undo else 'forgotten'}")
    return 2 if left else 0
