"""Files replaced in place: whoever is killed, at whatever moment, has lost nothing, and all can be taken back."""

import json
import multiprocessing
import os
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from duet import DuetError
from duet.application.journal import FOLDER, LINES, Journal, forget, read_journal, undo
from duet.data.decoding import Unreadable

NAMES = ["a.jpg", "b.jpg", "inner/a.jpg", "inner/deep/c.png", "odd\udcff name\n.jpg"]


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"old " + os.fsencode(name))
        (tmp_path / name).chmod(0o640)
    return tmp_path


def contents(folder):
    """Every file that people see, with its bytes."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found |= {os.path.join(place, name): (Path(place) / name).read_bytes() for name in names}
    return found


def write_new(old):
    return lambda partial: partial.write_bytes(b"new " + old.read_bytes()[4:])


def replace_all(folder):
    own = Journal(folder)
    return [own.replace(folder / name, write_new(folder / name)) for name in NAMES]


def test_files_are_replaced_and_put_back_to_the_byte(folder):
    before, times = contents(folder), {name: os.stat(folder / name).st_mtime_ns for name in NAMES}
    kept = replace_all(folder)
    assert all(data.startswith(b"new ") for data in contents(folder).values())
    assert [path.read_bytes() for path in kept] == [before[str(folder / name)] for name in NAMES]
    assert {os.stat(folder / name).st_mode & 0o777 for name in NAMES} == {0o640}
    assert undo(folder) == (len(NAMES), [])
    assert contents(folder) == before
    assert {name: os.stat(folder / name).st_mtime_ns for name in NAMES} == times
    assert not (folder / FOLDER).exists()
    with pytest.raises(DuetError, match="nothing to take back"):
        undo(folder)


def test_two_runs_are_taken_back_in_turn(folder):
    before = contents(folder)
    replace_all(folder)
    own = Journal(folder)
    own.replace(folder / "a.jpg", lambda partial: partial.write_bytes(b"newer"))
    assert undo(folder) == (len(NAMES), [])
    assert contents(folder) == before


def test_one_file_alone_is_taken_back(folder):
    before = contents(folder)
    replace_all(folder)
    assert undo(folder, folder / "b.jpg") == (1, [])
    assert contents(folder)[str(folder / "b.jpg")] == before[str(folder / "b.jpg")]
    assert (folder / "a.jpg").read_bytes().startswith(b"new")
    assert undo(folder).restored == len(NAMES) - 1
    assert contents(folder) == before


def test_what_was_changed_since_is_left_alone_and_its_original_kept(folder):
    before = contents(folder)
    replace_all(folder)
    (folder / "a.jpg").write_bytes(b"edited by hand")
    (folder / "b.jpg").unlink()
    done = undo(folder)
    assert done.restored == len(NAMES) - 2
    assert len(done.left) == 2
    assert (folder / "a.jpg").read_bytes() == b"edited by hand"
    assert not (folder / "b.jpg").exists()
    for name in ("a.jpg", "b.jpg"):
        assert (folder / FOLDER / "1" / name).read_bytes() == before[str(folder / name)]
        assert any(str(folder / FOLDER / "1" / name) in line for line in done.left)


def test_what_cannot_be_made_changes_nothing(folder):
    before = contents(folder)

    def fail(partial):
        partial.write_bytes(b"half")
        raise Unreadable("no codec")

    with pytest.raises(Unreadable):
        Journal(folder).replace(folder / "a.jpg", fail)
    assert contents(folder) == before
    assert sorted(os.listdir(folder)) == sorted(["a.jpg", "b.jpg", "inner", NAMES[-1]])


def test_forgetting_deletes_the_originals_and_nothing_else(folder):
    replace_all(folder)
    after = contents(folder)
    assert forget(folder) == len(NAMES)
    assert contents(folder) == after
    assert not (folder / FOLDER).exists()


def test_a_disk_without_second_names_keeps_copies(folder, monkeypatch):
    before = contents(folder)
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("not here")))
    replace_all(folder)
    assert undo(folder) == (len(NAMES), [])
    assert contents(folder) == before


class Killed(BaseException):
    """No `except Exception` stops it."""


def killed_at(moment, folder, monkeypatch, work):
    """Let work die at the so-manieth call that reaches the disk; tells whether it came so far."""
    calls = count()

    def deadly(function):
        def call(*arguments, **options):
            if next(calls) == moment:
                raise Killed
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("link", "replace", "fsync", "mkdir", "unlink", "chmod"):
            patch.setattr(os, name, deadly(getattr(os, name)))
        try:
            work(folder)
        except Killed:
            return True
    return False


def test_at_every_step_old_or_new_is_whole_and_all_can_be_taken_back(folder, monkeypatch):
    before = contents(folder)
    for moment in range(200):
        died = killed_at(moment, folder, monkeypatch, replace_all)
        now = contents(folder)
        assert set(now) == set(before)
        for path, data in now.items():
            assert data in (before[path], b"new " + before[path][4:])
        if (folder / FOLDER / LINES).exists():
            assert undo(folder).left == []
        assert contents(folder) == before, moment
        if not died:
            break
    assert 20 < moment < 199


def test_undo_that_dies_is_done_again(folder, monkeypatch):
    before = contents(folder)
    for moment in range(60):
        replace_all(folder)
        if not killed_at(moment, folder, monkeypatch, undo):
            break
        assert all(data in (before[path], b"new " + before[path][4:]) for path, data in contents(folder).items())
        if (folder / FOLDER / LINES).exists():
            assert undo(folder).left == []
        assert contents(folder) == before
    assert 5 < moment < 59


def endless(folder):
    for turn in count():
        Journal(folder).replace(
            folder / NAMES[turn % len(NAMES)], lambda partial: partial.write_bytes(os.urandom(9000))
        )


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.11])
def test_a_true_kill_loses_nothing(folder, seconds):
    before = contents(folder)
    process = multiprocessing.get_context("fork").Process(target=endless, args=(folder,))
    process.start()
    while (folder / NAMES[0]).read_bytes() == before[str(folder / NAMES[0])]:
        assert process.is_alive()
        time.sleep(0.001)  # until the first file is replaced, however busy the machine is
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert set(contents(folder)) == set(before)
    done = undo(folder)
    assert done.left == []
    assert done.restored > 0
    assert contents(folder) == before
    assert list(folder.rglob(".*")) == []


def test_a_torn_line_counts_for_nothing(folder):
    replace_all(folder)
    lines = folder / FOLDER / LINES
    with lines.open("ab") as file:
        file.write(b'{"path": "a.j')
    assert len(read_journal(folder)) == len(NAMES)
    Journal(folder).replace(folder / "a.jpg", lambda partial: partial.write_bytes(b"newer"))
    assert len(read_journal(folder)) == len(NAMES) + 1
    assert undo(folder).left == []


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        json.dumps({"path": "../x", "kept": f"{FOLDER}/1/x", "after": ""}),
        json.dumps({"path": "/etc/passwd", "kept": f"{FOLDER}/1/x", "after": ""}),
        json.dumps({"path": "x", "kept": f"{FOLDER}/../../x", "after": ""}),
        json.dumps({"path": "x", "kept": "y", "after": ""}),
    ],
)
def test_a_journal_of_a_stranger_reaches_nothing_outside(line, folder):
    replace_all(folder)
    with (folder / FOLDER / LINES).open("a") as file:
        file.write(line + "\n")
    after = contents(folder)
    with pytest.raises(DuetError, match="is damaged"):
        undo(folder)
    assert contents(folder) == after


def test_the_original_is_noted_and_kept_before_it_is_replaced(folder, monkeypatch):
    """The order is the promise."""
    steps = []

    def watch(owner, name):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, **options: (steps.append(name), plain(*given, **options))[1])

    watch(Journal, "_note")
    watch(os, "link")
    watch(os, "replace")
    Journal(folder).replace(folder / "a.jpg", write_new(folder / "a.jpg"))
    assert steps == ["_note", "link", "replace"]
