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


class Orient(Command):
    """Turn image files upright."""

    name = "orient"
    summary = "turn image files upright"
    description = """Estimate how far each image is turned from the model's upright, in degrees counter-clockwise, and
write copies turned back. Only what is surely known is turned: an image of the kind that the model was trained on, whose
angle is right to 45 degrees with a probability of 0.9 or more. The other copies stay as they are.

  duet orient scans/ -o upright/ --model runs/duet-rot360-scans
  duet orient scans/ --csv angles.csv --sheet look.html --model runs/duet-rot360-scans

Photos that lost their orientation stand, lie or hang: --snap 90 decides between quarter turns. Those need no
re-encoding: --write exif sets the orientation tag and touches no pixel.

  duet orient photos/ -o upright/ --snap 90 --write exif

Tilted horizons: --range 15 looks for nothing beyond 15 degrees to either side.

  duet orient photos/ -o level/ --range 15

The originals stay, and nothing is written over. --in-place replaces them, and keeps them in photos/.duet-orient until
--undo puts them back or --forget deletes them; both take the same folders and need no model.

  duet orient photos/ --in-place --snap 90 --write exif
  duet orient photos/ --undo

Copies keep their folders, names, formats and sizes; corners that the image does not reach take the colour of its edge,
and what turns out of the frame is cut unless --expand makes the copy larger."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Images, model, what to read, and where copies and angles go."""
        add_images(parser, "otherwise the shipped one that knows these images, if any does")
        add_turns(parser)
        add_turned_copies(parser, "corrected", "counts")
        parser.add_argument(
            "--sheet", type=Path, metavar="FILE", help="page (.html) with images before and after, the least sure first"
        )
        parser.add_argument("--snap", type=int, choices=[90], metavar="90", help="decide between quarter turns")
        parser.add_argument(
            "--range", type=float, metavar="DEGREES", help="read only tilts of at most so much to either side"
        )
        parser.add_argument(
            "--least",
            type=float,
            metavar="DEGREES",
            help="leave what is turned by less as it is [4 with --range, else 0]",
        )
        parser.add_argument(
            "--write",
            choices=["pixels", "exif", "none"],
            default="pixels",
            help="turn the pixels, set the orientation tag only, or nothing: report alone [%(default)s]",
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
        from ..application.orientation import check_outputs
        from ..application.sheet import Sheet

        # Before a model is chosen, which looks at images.
        check_outputs(args.out, args.csv, args.write, args.in_place, args.sheet is not None)
        check_apart({"--csv": args.csv, "--sheet": args.sheet})
        sheet = None
        if args.sheet is not None:
            check_report(args.sheet, "--sheet", list(find_files(args.images)))
            if args.sheet.suffix.lower() not in (".html", ".htm"):
                raise DuetError(f"--sheet is a page: let the name of {args.sheet} end in .html")
            sheet = Sheet()
        done = orient_files(
            args.images,
            _model(args),
            args.out,
            args.csv,
            args.sure,
            args.batch_size,
            snap=args.snap is not None,
            span=args.range,
            write=args.write,
            in_place=args.in_place,
            sheet=sheet,
            least=args.least,
            expand=args.expand,
        )
        if sheet is not None:
            from ..report.sheet import write_sheet

            write_sheet(sheet, done, args.sheet)
        where = ", ".join(printable(path) for path in (args.out, args.csv, args.sheet) if path is not None)
        turned = "turned upright" if args.out is not None or args.in_place else "sure enough to turn"
        parts = [f"{done.turned} of {done.readable} images {turned}"]
        parts += [f"{done.unsure} not sure"] if done.unsure else []
        parts += [f"{done.strange} of another kind than the model knows"] if done.strange else []
        print(f"{', '.join(parts)}{': ' if where else ''}{where}")
        if done.standing:
            print(f"{done.standing} of the {done.turned} stood upright already and stay as they are", file=sys.stderr)
        return 0


def _model(args: argparse.Namespace) -> Encoder:
    """The model that was named, or the shipped one that knows such images."""
    if args.model is not None:
        return open_model(args, args.turns)
    from ..application.choice import choose_model

    choice = choose_model(args.images, args.device, args.turns)
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
