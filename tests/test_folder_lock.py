"""One folder, one process: two at once, a holder that died, one on another machine, and what a lock leaves behind."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duet import lock
from duet.lock import Busy, Holder, locked

HOLD = """
import sys, time
from pathlib import Path
from duet.lock import locked
with locked(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(float(sys.argv[2]))
"""
CONTEND = """
import os, sys, time
from pathlib import Path
from duet.lock import Busy, locked
path, had, refused = Path(sys.argv[1]), 0, 0
while not (path.parent / "enough").exists():
    try:
        with locked(path):
            inside = os.open(path.parent / "inside", os.O_CREAT | os.O_EXCL)  # fails where two are inside
            time.sleep(0.002)
            os.close(inside)
            os.unlink(path.parent / "inside")
            had += 1
    except Busy:
        refused += 1
        time.sleep(0.001)
    print(had, refused, flush=True)
"""
OUTLIVED = """
import os, sys, time
from pathlib import Path
from duet.lock import locked
with locked(Path(sys.argv[1])):
    if os.fork() == 0:
        print("mine", flush=True)  # the child says so: only then has it begun
        sys.stdout.close()
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""


def start(code, *arguments):
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True)


def leave(path, **changes):
    """A lock as a process leaves it that was killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**vars(Holder.here()), "pid": 2**22 + 1, **changes}))


def test_a_lock_has_one_holder_and_leaves_nothing(tmp_path):
    path = tmp_path / "a" / "b"
    with locked(path):
        with pytest.raises(Busy, match=f"a is in use by process {os.getpid()}; wait for it"), locked(path):
            pass
        with locked(tmp_path / "a" / "c"):
            pass
    assert list((tmp_path / "a").iterdir()) == []
    with locked(path):
        pass


def test_two_processes_never_hold_it_at_once(tmp_path):
    processes = [start(CONTEND, tmp_path / "lock") for _ in range(2)]
    had, refused = [0, 0], [0, 0]
    try:
        while min(had) < 50 or sum(refused) < 50:
            for which, process in enumerate(processes):
                line = process.stdout.readline()
                assert line, "a process has failed: both were inside"
                had[which], refused[which] = map(int, line.split())
    finally:
        (tmp_path / "enough").touch()
        for process in processes:
            process.communicate()
    assert [process.returncode for process in processes] == [0, 0]


def test_a_lock_of_a_killed_process_is_taken_over_with_a_word(tmp_path, caplog):
    process = start(HOLD, tmp_path / "lock", 60)
    assert process.stdout.readline() == "mine\n"
    with pytest.raises(Busy, match=f"process {process.pid}"), locked(tmp_path / "lock"):
        pass
    process.kill()
    process.communicate()
    with caplog.at_level(logging.WARNING), locked(tmp_path / "lock", name="runs/x"):
        assert caplog.messages == [f"taking over the lock of runs/x: process {process.pid}, which held it, has ended"]
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="no fork here")
def test_a_worker_that_outlives_the_holder_does_not_hold_its_lock(tmp_path):
    process = start(OUTLIVED, tmp_path / "lock")
    assert process.stdout.readline() == "mine\n"
    with pytest.raises(Busy), locked(tmp_path / "lock"):
        pass
    process.kill()  # the child goes on
    process.wait()
    try:
        with locked(tmp_path / "lock"):
            pass
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_lock_of_another_machine_is_refused_even_by_who_would_wait(tmp_path):
    path = tmp_path / "lock"
    leave(path, pid=12, host="\x1b[2Jfar", boot="other")
    for wait in (False, True):
        with pytest.raises(Busy) as refused, locked(path, wait):
            pass
        assert str(refused.value) == f"{tmp_path} is in use by process 12 on [2Jfar; if it has ended, remove {path}"
    path.unlink()
    with locked(path):
        pass


@pytest.mark.parametrize("changes", [{"boot": "before"}, {"host": "a-container"}], ids=["restarted", "container"])
def test_this_machine_is_known_after_a_restart_and_in_another_container(tmp_path, caplog, changes):
    if not Holder.here().boot and "host" in changes:
        pytest.skip("this system does not tell its starts")
    leave(tmp_path / "lock", **changes)
    with locked(tmp_path / "lock"):
        assert "taking over the lock" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', "[" * 900, '{"pid": 1e999, "host": 1, "boot": 2}'])
def test_a_lock_that_names_nobody_is_free_where_the_system_says_so(tmp_path, text):
    (tmp_path / "lock").write_text(text)
    with locked(tmp_path / "lock"):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_who_waits_gets_it_when_it_is_free(tmp_path):
    process = start(HOLD, tmp_path / "lock", 0.5)
    assert process.stdout.readline() == "mine\n"
    with locked(tmp_path / "lock", wait=True):
        assert process.wait() == 0
    process.communicate()


def test_without_locks_of_the_system_the_number_of_the_process_tells(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(lock, "_system_lock", lambda handle: None)
    path = tmp_path / "lock"
    with locked(path), pytest.raises(Busy, match=f"process {os.getpid()}.*remove {path}"), locked(path):
        pass
    assert not path.exists()
    leave(path)
    with locked(path):
        assert "taking over the lock" in caplog.text
    monkeypatch.setattr(lock, "system", None)  # as on Windows, where nobody can ask for a process
    leave(path)
    with pytest.raises(Busy, match=f"remove {path}"), locked(path):
        pass


def test_a_lock_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(handle, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"), locked(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_others_is_not_removed(tmp_path):
    path = tmp_path / "lock"
    with locked(path):
        path.unlink()  # somebody was told to
        Path(path).write_text("another's")
    assert path.read_text() == "another's"
