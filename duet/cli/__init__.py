"""The command `duet`: one file a command."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from ..allocator import keep_freed_memory
from ..error import DuetError, did_you_mean, first_line, no_memory, printable, shorten
from .align import Align
from .command import Command, Parser
from .demo import Demo
from .embed import Embed
from .evaluate import Evaluate
from .explore import Explore
from .export import Export
from .listing import List
from .orient import Orient
from .report import Report
from .reproduce import Reproduce
from .score import Score
from .study import Study
from .train import Train

COMMANDS: tuple[Command, ...] = (
    *(Train(), Evaluate(), Score(), Embed(), Orient(), Align(), Export()),
    *(Study(), Reproduce(), Report(), Explore(), List(), Demo()),
)
CHATTY = ("httpx", "datasets", "fsspec", "urllib3", "huggingface_hub")


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; a user's mistake is one line on standard error and 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(arguments)
    except SystemExit as leaving:  # argparse, which has said why
        return leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))


def _run(arguments: list[str]) -> int:
    args = parse(arguments)
    keep_freed_memory()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        _prepare(args)
        return int(args.run(args) or 0)
    except (DuetError, OSError, MemoryError, RuntimeError) as error:
        usual = isinstance(error, DuetError | OSError)
        if args.traceback or not (usual or no_memory(error)):
            raise
        told = str(error) if usual else f"not enough memory: {first_line(error)}"
        print(f"duet: {shorten(printable(' '.join(told.split())))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("duet: stopped", file=sys.stderr)
        return 130


def parse(arguments: list[str]) -> argparse.Namespace:
    """What the words ask for; nothing is done yet. A mistake is one line on standard error and SystemExit(2)."""
    parser = Parser(prog="duet", description="Image features that keep a transformation's parameter in view.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    word = next((argument for argument in arguments if not argument.startswith("-")), "")
    for command in COMMANDS:
        # The options of some commands are read from the library's own types: only the chosen one waits for that.
        command.add_to(commands, chosen=command.name == word)
    if odd := next((argument for argument in arguments if not _can_be_named(argument)), None):
        parser.exit(2, f"duet: {odd!r} holds characters that no file's name can have\n")
    names = {command.name: command.summary for command in COMMANDS}
    if word and arguments[0] == word and word not in names:
        parser.exit(2, f"duet: no command {word!r}{did_you_mean(word, names)}; there are {', '.join(names)}\n")
    from .. import __version__

    parser.add_argument("--version", action="version", version=f"duet {__version__}")
    return parser.parse_strictly(arguments)


def _can_be_named(word: str) -> bool:
    """Whether a file could have this name: a command's words may all come to be asked for as one."""
    try:
        return b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        return False


class _OneLine(logging.Formatter):
    """What is logged may name files of strangers."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))


def _prepare(args: object) -> None:
    """Import what the user names, and refuse a device that is not there before anything long begins."""
    from ..plugin import import_plugin

    for name in getattr(args, "plugin", []):
        import_plugin(name)
    if getattr(args, "device", "auto") not in ("auto", "cpu"):
        from ..device import find_device

        find_device(str(getattr(args, "device", "auto")))
