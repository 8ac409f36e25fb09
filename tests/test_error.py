"""Messages: one line, short, safe to print, whatever they name."""

import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from duet.error import LONGEST, DuetError, printable, shorten

CONTROL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(text=st.text(st.characters(), max_size=40))
def test_what_is_printable_has_no_control_characters_and_one_line(text):
    told = printable(text)
    assert not CONTROL & {unicodedata.category(character) for character in told}
    assert len(told.splitlines()) <= 1
    told.encode("utf-8")
    assert printable(told) == told


def test_plain_names_stay_as_they_are():
    for name in ("photo 1.jpg", "Grüße_漢字.png", "a\\b"):
        assert printable(Path(name)) == name


def test_escapes_tell_what_was_there():
    assert printable("a\nb\r\x1b[31m\x7f") == r"a\nb\r\x1b[31m\x7f"
    assert printable("photo\u202egpj.exe") == r"photo\u202egpj.exe"
    assert printable(Path("bad\udcff.png")) == r"bad\xff.png"
    assert printable("half \ud800") == r"half \ud800"


@given(text=st.text(max_size=60), longest=st.integers(10, 40))
def test_a_short_text_begins_and_ends_as_the_long_one(text, longest):
    told = shorten(text, longest)
    assert told == text if len(text) <= longest else len(told) == longest
    begin, _, end = (told, "", "") if len(text) <= longest else told.partition("...")
    assert text.startswith(begin[:3])
    assert text.endswith(end[-3:])


def test_an_error_is_one_short_line_whatever_it_names():
    error = DuetError(f"cannot read \x1b]0;evil\x07\n{'9' * 10**6}; give another")
    assert str(error).startswith(r"cannot read \x1b]0;evil\x07 999")
    assert str(error).endswith("999; give another")
    assert len(str(error)) == LONGEST
