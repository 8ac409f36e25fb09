"""Files appear whole, stay, and are as open as the user's files are."""

import os
import subprocess
import sys

import pytest

from duet.file import PARTIAL, sweep_partial, whole_file, write_json, write_text


def test_a_file_is_there_when_all_went_well(tmp_path):
    write_text(tmp_path / "deep" / "a.txt", "ä")
    write_json(tmp_path / "b.json", {"x": 1})
    assert (tmp_path / "deep" / "a.txt").read_bytes() == "ä".encode()
    assert (tmp_path / "b.json").read_text() == '{\n  "x": 1\n}\n'
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.json", "deep"]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail():
        with whole_file(path) as partial:
            partial.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_it_reaches_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    order = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replace"), replace(a, b)))
    write_text(tmp_path / "a.txt", "x")
    assert order[:2] == ["sync", "replace"]


def test_files_are_as_open_as_the_user_wants(tmp_path):
    code = "import os; os.umask(0o077); from duet.file import write_text; from pathlib import Path; "
    code += f"write_text(Path({str(tmp_path / 'private')!r}), 'x')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_leftovers_of_a_killed_process_are_swept(tmp_path):
    (tmp_path / f"{PARTIAL}abcd_123").mkdir()
    (tmp_path / f"{PARTIAL}abcd_123" / "half").write_text("h")
    (tmp_path / "whole").write_text("w")
    sweep_partial(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["whole"]


def test_what_only_looks_half_written_is_somebody_elses(tmp_path):
    (tmp_path / f"{PARTIAL}mine").mkdir()
    (tmp_path / f"{PARTIAL}mine" / "precious").write_text("p")
    with whole_file(tmp_path / "a") as partial:
        partial.write_text("a")
        ours = partial.parent
        sweep_partial(tmp_path)
        assert not ours.exists()
        ours.mkdir()
        partial.write_text("a")
    assert (tmp_path / f"{PARTIAL}mine" / "precious").read_text() == "p"
