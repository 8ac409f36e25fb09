"""What a command is: its words, its options, and what it does. What it needs is imported when it runs."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from .. import __version__
from ..error import DuetError, nearest, printable, shorten, shown

if TYPE_CHECKING:
    from ..model import Encoder

SURE = 0.9
DEVICES = ("auto", "cpu", "cuda", "mps")


class Parser(argparse.ArgumentParser):
    """Mistakes end with one line on standard error and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and leave."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave; why is one line, whatever was typed."""
        super().exit(status, f"{shorten(printable(' '.join(message.split())))}\n" if message and status else message)

    def parse_strictly(self, arguments: list[str]) -> argparse.Namespace:
        """Parse; an unknown option is answered with the nearest known one, by its name or by what it is for."""
        args, unknown = self.parse_known_args(arguments)
        if unknown:
            parser: Parser = getattr(args, "parser", self)
            asked = unknown[0].split("=")[0]
            if not asked.startswith("-"):
                parser.exit(2, f"{parser.prog}: {asked} is one word too many; see {parser.prog} --help\n")
            known = {
                flag: str(action.help or "")
                for action in parser._actions
                for flag in action.option_strings
                if flag.startswith("--") and action.help != argparse.SUPPRESS
            }
            near = nearest(asked, known)
            hint = f"; did you mean {near[0]}?" if near else ""
            parser.exit(2, f"{parser.prog}: unknown option {asked}{hint}\n")
        return args


class Command(ABC):
    """A command of `duet`. Its first words are what it is about: a run, a model, or images."""

    name: ClassVar[str]
    summary: ClassVar[str]
    description: ClassVar[str] = ""
    usage: ClassVar[str | None] = None

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Its own options; those that take long to find out only if the command was chosen."""

    @abstractmethod
    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit code."""

    def add_to(self, commands: Any, chosen: bool) -> None:
        """Add the command, its own options and those that all commands have."""
        parser = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.description or self.summary,
            usage=self.usage,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.set_defaults(run=self.run, parser=parser)
        self.add_arguments(parser, chosen)
        common = parser.add_argument_group("all commands")
        common.add_argument(
            "--device", default="auto", metavar="|".join(DEVICES), help="where to compute, if it does [%(default)s]"
        )
        common.add_argument(
            "--plugin",
            action="append",
            default=[],
            metavar="MODULE",
            help="import a module of yours first: groups, methods, evaluations that it registers are then known",
        )
        common.add_argument("--version", action="version", version=f"duet {__version__}")
        common.add_argument("--traceback", action="store_true", help="show where an error comes from")


def whole(most: int, least: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a whole number, no larger than makes sense.

    Where it starts is said by what takes the number, unless that is given too.
    """

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"takes a whole number, not {shown(text)}") from None
        lowest = -most if least is None else least
        if not lowest <= number <= most:
            raise argparse.ArgumentTypeError(f"takes numbers from {lowest} to {most}, not {shown(text)}")
        return number

    return read


SEED = whole(2**31 - 1, least=0)
SIDE = whole(2**14)
TURNED = whole(2**12)
JOBS = whole(2**10)


def add_images(parser: argparse.ArgumentParser, otherwise: str = "required") -> None:
    """What the commands on images have in common; `otherwise` says what happens where no model is named.

    No model is taken by default whatever the images are: none fits all kinds.
    """
    parser.add_argument("images", nargs="+", metavar="IMAGES", help="image files, or folders with images at any depth")
    parser.add_argument(
        "--model",
        metavar="NAME|RUN",
        help=f"a model for such images: a run, a folder, a Hub id, a shipped one; {otherwise}",
    )
    parser.add_argument(
        "--batch-size", type=whole(2**24), default=256, metavar="N", help="images at a time [%(default)s]"
    )


def add_turns(parser: argparse.ArgumentParser) -> None:
    """How many turned copies of an image the model looks at."""
    parser.add_argument(
        "--turns", type=TURNED, metavar="N", help="turned copies of an image to look at; 1 is fastest [the model's own]"
    )


def add_turned_copies(
    parser: argparse.ArgumentParser, copies: str, columns: str, sure: str, default: float | None = SURE
) -> None:
    """Where turned copies and their angles go, and which of them are sure; `copies`, `columns` and `sure` in words."""
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=f"folder for the {copies} copies")
    parser.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help=f"table with {columns}; degrees are counter-clockwise; - is standard output",
    )
    parser.add_argument("--sure", type=float, default=default, metavar="P", help=sure)
    parser.add_argument("--expand", action="store_true", help="make copies larger, so that turning cuts nothing")


def open_model(args: argparse.Namespace, turns: int | None = None) -> Encoder:
    """The model that was named, with its own turns or so many; one line says what to name where none was."""
    if args.model is None:
        raise DuetError(
            "say which model: --model RUN, trained on images such as these; of the shipped ones photos-rot360 is for "
            "photos and digits-rot360 for grey digits"
        )
    from ..model import load

    return load(args.model, args.device, turns=turns)


def key_values(given: list[str], flag: str = "--option") -> dict[str, str]:
    """Pairs of key=value."""
    pairs: Mapping[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise DuetError(f"{flag} takes key=value, not {text!r}")
        pairs = {**pairs, key.replace("-", "_"): value}
    return dict(pairs)
