"""The page's own folder: nothing in it outlives its use, nor the explorer, however that ends."""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from duet.explorer.upload import Uploads, upload_folder
from duet.interruption import stopped_as_by_ctrl_c


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run_apart(number):
    """A process with a file in its folder, ended by a signal."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with stopped_as_by_ctrl_c(), upload_folder() as folder:
                (folder / "upload.png").write_bytes(b"0" * 1000)
                os.write(writing, b"1")
                time.sleep(60)
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    os.kill(child, number)
    os.waitpid(child, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing(temporary, name):
    run_apart(getattr(signal, name))
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_what_a_killed_one_left_goes_at_the_next_start_and_what_lives_stays(temporary):
    run_apart(signal.SIGKILL)
    assert [path.name for path in temporary.rglob("*.png")] == ["upload.png"]
    with upload_folder() as first:
        assert list(temporary.iterdir()) == [first.parent]
        (first / "mine.png").touch()
        with upload_folder():
            assert (first / "mine.png").exists()
    assert list(temporary.iterdir()) == []


def test_folders_of_others_and_links_are_left_alone(temporary, monkeypatch):
    home = temporary / "home"
    (home / "photos").mkdir(parents=True)
    (home / "lock").touch()
    (temporary / "duet-explore-link").symlink_to(home)
    other = temporary / "duet-explore-other"
    other.mkdir()
    (other / "lock").touch()
    monkeypatch.setattr(os, "getuid", lambda: other.stat().st_uid + 1)
    with upload_folder():
        pass
    assert (home / "photos").exists()
    assert (other / "lock").exists()


def test_an_error_leaves_nothing(temporary):
    def fail():
        with upload_folder() as folder:
            (folder / "upload.png").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(temporary.iterdir()) == []


def test_the_folder_is_private():
    with upload_folder() as folder:
        assert folder.parent.stat().st_mode & 0o077 == 0


def test_what_is_sent_goes_and_what_is_shown_stays(tmp_path):
    folder = tmp_path / "files"
    for name in ("shown", "used", "unused", "fresh"):
        (folder / name).mkdir(parents=True)
        (folder / name / "image.png").touch()
        if name == "shown":
            uploads = Uploads(folder)
            uploads.keep()
    shown, used, unused = (str(folder / name / "image.png") for name in ("shown", "used", "unused"))
    assert uploads.shows(shown)
    assert not uploads.holds(shown)
    assert uploads.holds(used)
    assert not uploads.shows(used)
    uploads.forget(used)
    uploads.forget(shown)
    assert not Path(used).parent.exists()
    for old in (shown, unused):
        os.utime(old, (0, 0))
    uploads.sweep()
    assert sorted(path.name for path in folder.iterdir()) == ["fresh", "shown"]
    outside = tmp_path / "mine.png"
    outside.touch()
    (folder / "link.png").symlink_to(outside)
    for path in (str(outside), f"{folder}/../mine.png", str(folder / "link.png"), str(folder), "a\0b", ""):
        assert not uploads.holds(path)
        assert not uploads.shows(path)
        uploads.forget(path)
    assert outside.exists()


def test_what_goes_while_the_folder_is_swept_stops_nothing(tmp_path, monkeypatch):
    """An image is read and deleted, with its folder, at the very moment at which old files are looked for."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old.png").touch()
        os.utime(tmp_path / name / "old.png", (0, 0))
    real = os.scandir

    def scandir(path):
        if Path(path).name == "one":
            (Path(path) / "old.png").unlink()
            Path(path).rmdir()
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    Uploads(tmp_path).sweep()
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
