"""Where a run's images lie is noted in its folder, and found from any working folder."""

import json

import pytest

from duet.data.place import FILE, check_place, find_place, is_same_place, note_place
from duet.error import DuetError


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working folder with images, a run beside them, and another folder to go to."""
    for name in ("here/photos", "run/model", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_images_are_found_from_another_folder(home, monkeypatch):
    note_place(home / "run", "photos", "photos")
    assert json.loads((home / "run" / FILE).read_text()) == {"typed": "photos", "absolute": str(home / "here/photos")}
    monkeypatch.chdir(home / "elsewhere")
    for run in (home / "run", home / "run" / "model", "../run", "../run/model"):
        assert find_place(run, "photos") == str(home / "here/photos")
    assert find_place(home / "run", "pictures") == "pictures"  # the configuration was changed since
    assert find_place(None, "photos") == "photos"
    assert find_place(home / "nowhere", "photos") == "photos"


def test_what_was_moved_is_taken_where_it_was_typed_if_it_is_there(home, monkeypatch):
    note_place(home / "run", "photos", "photos")
    (home / "here/photos").rename(home / "elsewhere/photos")
    assert find_place(home / "run", "photos") == str(home / "here/photos")  # for a message that says where they were
    monkeypatch.chdir(home / "elsewhere")
    assert find_place(home / "run", "photos") == "photos"


def test_a_pattern_of_tables_is_found_too(home, monkeypatch):
    (home / "here/part-0.parquet").touch()
    note_place(home / "run", "part-*.parquet", "part-*.parquet")
    monkeypatch.chdir(home / "elsewhere")
    assert find_place(home / "run", "part-*.parquet") == str(home / "here/part-*.parquet")


def test_a_name_has_no_place(home, monkeypatch):
    monkeypatch.setenv("DUET_DATA", str(home / "here"))
    for name in ("digits", "cifar10", "photos"):
        note_place(home / "run", name, name)
    assert not (home / "run" / FILE).exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"typed": "photos"}', '{"typed": "photos", "absolute": "../x"}', "{"]
)
def test_a_damaged_note_counts_as_none(home, text):
    (home / "run" / FILE).write_text(text)
    assert find_place(home / "run", "photos") == "photos"


def test_places_are_compared_as_paths_and_names_as_names(home):
    assert is_same_place("photos", str(home / "here/photos"))
    assert is_same_place("./photos/", "photos")
    assert is_same_place("digits", "digits")
    assert not is_same_place("digits", str(home / "here/digits"))
    assert not is_same_place("photos", "../elsewhere")


def test_images_that_are_gone_are_one_line(home):
    check_place("digits")
    check_place("photos")
    with pytest.raises(DuetError, match=r"fotos does not exist .did you mean 'photos'.*name them with --data"):
        check_place("fotos")
