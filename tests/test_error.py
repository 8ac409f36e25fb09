"""Messages: one line, short, safe to print, whatever they name."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duet.error import LONGEST, DuetError, nearest, printable, shorten
from duet.file import does_not_exist
from duet.synonym import SYNONYMS

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


FLAGS = ["--lr", "--calibrate", "--warmup-epochs", "--weight", "--batch-size", "--out", "--device"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--lerning-rate", "--lr"),
        ("--learning_rate", "--lr"),
        ("--lambda", "--weight"),
        ("--lamda", "--weight"),
        ("--ouput", "--out"),
        ("--gpu", "--device"),
        ("--batchsize", "--batch-size"),
    ],
)
def test_an_option_is_meant_by_its_spelling_or_by_a_synonyms(typed, meant):
    assert nearest(typed, FLAGS) == [meant]


def test_what_a_description_says_does_not_make_a_word_the_one_that_was_meant():
    described = {"--calibrate": "keep a tenth of the images aside, and learn from it how sure readings are"}
    assert nearest("--lerning-rate", described) == []
    assert nearest("--learn", described) == []
    assert nearest("fish eye", {"bulge": "fisheye"}) == ["bulge"]  # a title is a synonym


def test_synonyms_name_what_there_is():
    from duet.cli import COMMANDS, Parser
    from duet.evaluation import EVALUATIONS
    from duet.groups import GROUPS
    from duet.methods import METHODS
    from duet.model.hub import shipped_models
    from duet.networks import BACKBONES
    from duet.networks.trunk import TRUNKS
    from duet.objectives import OBJECTIVES

    parsers = Parser().add_subparsers()
    for command in COMMANDS:
        command.add_to(parsers, chosen=True)
    flags = {flag for parser in parsers.choices.values() for flag in parser._option_string_actions}
    words = [*flags, *EVALUATIONS, *GROUPS, *METHODS, *shipped_models(), *BACKBONES, *TRUNKS, *OBJECTIVES, "images"]
    known = {word.lstrip("-").replace("_", "-") for word in words} | {"model"}
    assert {target for targets in SYNONYMS.values() for target in targets} <= known
    assert all(word == word.lower() and "_" not in word for word in SYNONYMS)


def test_a_path_that_leads_nowhere_is_said_so_with_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    assert does_not_exist("runz") == "runz does not exist (did you mean 'runs'?)"
    assert does_not_exist("runs/frist/") == "runs/frist/ does not exist (did you mean 'runs/first'?)"
    assert does_not_exist(tmp_path / "run") == f"{tmp_path}/run does not exist (did you mean '{tmp_path}/runs'?)"
    assert does_not_exist("no/such/qqq") == "no/such/qqq does not exist"
    (tmp_path / "photo.log").touch()
    assert does_not_exist(tmp_path / "photos") == f"{tmp_path}/photos does not exist"
    assert does_not_exist(tmp_path / "photos.log").endswith("(did you mean '" + str(tmp_path / "photo.log") + "'?)")
