"""Commands of duet as processes of their own: started, killed, measured, and what they leave compared."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
_started: list[subprocess.Popen[str]] = []


def start(words: list[str]) -> subprocess.Popen[str]:
    """`duet ...`, with one thread and in a process group of its own, as a job of a scheduler would be."""
    line = [sys.executable, "-m", "duet.cli", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    _started.append(subprocess.Popen(line, env=environment, text=True, start_new_session=True, **pipes))
    return _started[-1]


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL it and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@atexit.register
def _leave_nobody() -> None:
    for process in _started:
        if process.poll() is None:
            kill(process)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run(words: list[str]) -> float:
    """Run `duet ...` to its end; the seconds that it took."""
    begun = time.monotonic()
    process = start(words)
    _, said = process.communicate()
    if process.returncode:
        raise SystemExit(f"duet {' '.join(words)} ended with {process.returncode}: {said.strip()[-300:]}")
    return time.monotonic() - begun


def run_killed(words: Callable[[], list[str]], kills: int, seconds: float, drawn: random.Random) -> int:
    """Run, and SIGKILL it and all that it started so many times, at random moments of its `seconds`; then to the end.

    `words` says anew what to give after a kill. Returns the kills that came before the end.
    """
    done = 0
    for _ in range(kills):
        process = start(words())
        try:
            process.communicate(timeout=drawn.uniform(0, seconds))
            return done
        except subprocess.TimeoutExpired:
            kill(process)
            done += 1
    run(words())
    return done


def resident(process: int | str = "self") -> float:
    """MB of memory that a process holds now; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6
    except (OSError, IndexError):
        return 0.0


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of files by their names."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}
