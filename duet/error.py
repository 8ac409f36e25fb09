"""What a user can get wrong, said in one line, with the nearest right word."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
from collections.abc import Iterable, Mapping

from .synonym import SYNONYMS

TITLE = 3
"""Words of a title that counts as a synonym; longer texts are sentences."""
LONGEST = 1_000
"""Characters of a message: what a stranger's file says is never told whole."""


class DuetError(ValueError):
    """A mistake of the user's; the message is one line that says what to do. The command exits with 2.

    Whatever was put into it, it is short, on one line and safe to print.
    """

    def __init__(self, message: str = "") -> None:
        lines = (line.strip() for line in message.splitlines())
        super().__init__(shorten(printable(" ".join(lines))))


def check_name(value: object, call: str, wanted: str, otherwise: str = "") -> None:
    """Refuse what is not a text or a path where a name is expected, such as a module or a tensor."""
    if not isinstance(value, str | os.PathLike):
        kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}".removeprefix("builtins.")
        raise DuetError(f"{call} takes {wanted} by name, not a {kind}{f': {otherwise}' if otherwise else ''}")


def printable(text: str | os.PathLike[str]) -> str:
    """A text or a file's name, safe to print and to store in one line: what is not printable is written as an escape.

    That is control characters, newlines, marks that turn the direction of reading, and bytes that are no UTF-8.
    """
    plain = os.fspath(text)
    return plain if plain.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in plain)


def shorten(text: str, longest: int = LONGEST) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 3]}...{text[len(text) - end :]}"


def nearest(word: str, known: Iterable[str] | Mapping[str, str], most: int = 1) -> list[str]:
    """The known words that were probably meant: by their spelling, or by that of a listed synonym.

    Of a mapping, a short value is a synonym too, such as the title of a group. What is spelt most alike comes first.
    """
    names: dict[str, list[str]] = {}
    for name in known:
        names.setdefault(_plain(name), []).append(name)
    spelt = {plain: list(found) for plain, found in names.items()}
    for synonym, targets in SYNONYMS.items():
        spelt.setdefault(synonym, []).extend(name for target in targets for name in names.get(target, ()))
    for name, title in known.items() if isinstance(known, Mapping) else ():
        if isinstance(title, str) and len(title.split()) <= TITLE:  # a mapping to anything else is its words
            spelt.setdefault(_plain(title), []).append(name)
    alike = difflib.get_close_matches(_plain(word), [plain for plain, found in spelt.items() if found], n=len(spelt))
    return list(dict.fromkeys(name for plain in alike for name in spelt[plain]))[:most]


def did_you_mean(word: str, known: Iterable[str] | Mapping[str, str], written: Mapping[str, str] | None = None) -> str:
    """ " (did you mean 'group'?)", or nothing where no known word is near; `written`: how words are shown."""
    found = nearest(word, known)
    return f" (did you mean {(written or {}).get(found[0], found[0])!r}?)" if found else ""


def first_line(error: BaseException | str, longest: int = 200) -> str:
    """What an error says first; its kind where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:longest]


def no_memory(error: BaseException) -> bool:
    """Whether an error says that the machine, or a device, has not enough memory; torch has no one kind for it."""
    words = ("can't allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def shown(value: object) -> str:
    """A value as a message shows it: as Python writes it, and of a long one only a part."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a huge number"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def _escape(character: str) -> str:
    # How Python holds a byte of a file's name that is no UTF-8.
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else character.encode("unicode_escape").decode()


def _plain(word: str) -> str:
    """How words are compared: --Learning_Rate is learning-rate."""
    return re.sub(r"[\s_]+", "-", word.strip().lower()).lstrip("-")
