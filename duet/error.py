"""What a user can get wrong, said in one line, with the nearest right word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping


class DuetError(ValueError):
    """A mistake of the user's; the message is one line that says what to do. The command exits with 2."""


def nearest(word: str, known: Iterable[str] | Mapping[str, str], most: int = 1) -> list[str]:
    """The known words that were probably meant; of a mapping the values, a description of each word, count too.

    A word that a description holds comes before one that is only spelt alike: "rotation" is rot360, not saturation.
    """
    described = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
    asked = _words(word)
    # Of several that are described so, the shorter description says little else.
    told = [name for name, text in described.items() if asked and asked <= _words(f"{name} {text}")]
    told.sort(key=lambda name: len(_words(described[name])))
    alike = difflib.get_close_matches(word, list(described), n=most)
    return list(dict.fromkeys([*told, *alike]))[:most]


def did_you_mean(word: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """ " (did you mean 'group'?)", or nothing where no known word is near."""
    found = nearest(word, known)
    return f" (did you mean {found[0]!r}?)" if found else ""


def first_line(error: BaseException | str, longest: int = 200) -> str:
    """What an error says first; its kind where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:longest]


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[^a-z0-9]+", text.lower()) if len(word) > 1}
