"""`duet ...` in processes of their own that begin warm: forked from one that has imported torch and Lightning.

Importing takes most of the seconds of a small command. What a process does stays in it, as if it had been started anew.
"""

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import pkgutil
import runpy
import sys
import tempfile
import traceback
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "lightning.fabric", "duet.cli", "duet.training.run", "duet.evaluation"])

SINGLE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A process with a pool of threads cannot be forked: the pool would not come along."""


def prepare():
    """Let the warm process begin, if it has not; CONTEXT then makes processes from it."""
    with mock.patch.dict(os.environ, SINGLE):
        multiprocessing.forkserver.ensure_running()


class Finished(NamedTuple):
    """As subprocess.run has it: a negative code is the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


class Running:
    """A command under way, as subprocess.Popen has it."""

    def __init__(self, words, folder=None, target=None, **environment):
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name, "out"), Path(self._folder.name, "err")
        words = [str(word) for word in words]
        place = str(folder or Path.cwd())
        said = [str(path) for path in self._said]
        self._process = CONTEXT.Process(target=_run, args=(target or _command, words, place, *said, environment))
        prepare()
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        """The code, or None while it runs."""
        return self._process.exitcode

    def send_signal(self, number):
        """As if sent from a terminal, to this process alone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """SIGKILL."""
        self._process.kill()

    def wait(self, timeout=1740):
        """Until it ends; returns what it left. The limit ends what hangs, before pytest's own does."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutError(f"not done after {timeout} s")
        return Finished(self._process.exitcode, *(path.read_text() if path.exists() else "" for path in self._said))


class Held(Running):
    """A command that is held before each call of the function at `place`, from its first call on.

    Until it has come there, this waits; EOFError where it ends before.
    """

    def __init__(self, place, *words, **environment):
        self._gate, theirs = CONTEXT.Pipe()
        super().__init__(words, target=partial(_held, place, theirs), **environment)
        theirs.close()
        self._gate.recv()

    def step(self):
        """Let it make this call, and wait until it has come to the next."""
        self._gate.send("go on")
        self._gate.recv()

    def let_go(self):
        """Let it make this call and all others."""
        self._gate.close()


def duet(*words, folder=None, **environment):
    """Run `duet ...` and wait for it."""
    return Running(words, folder, **environment).wait()


def script(path, folder):
    """Run a Python file and wait for it."""
    return Running([path], folder, runpy.run_path).wait()


def _command(*words):
    from duet.cli import main

    return main(list(words))


def _held(place, gate, *words):
    from duet.cli import main

    real = pkgutil.resolve_name(place)

    def call(*arguments, **named):
        with contextlib.suppress(EOFError, OSError):  # it was let go
            gate.send("here")
            gate.recv()
        return real(*arguments, **named)

    with mock.patch(place, call):
        return main(list(words))


def _run(target, words, folder, out, err, environment):
    os.chdir(folder)
    os.environ.update({name: str(value) for name, value in environment.items()})
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1) for stream in (1, 2))
    sys.argv, sys.path[0:0] = ["duet", *words], [folder]
    code = 1
    try:
        found = target(*words)
        code = found if isinstance(found, int) else 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(bool(left.code))
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
