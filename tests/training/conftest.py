"""Small runs, in this process and as the command."""

import os
import subprocess
import sys

import pytest

from duet import Experiment

TINY = {"epochs": 3, "subset": 160, "batch_size": 32, "projector": [32, 16], "action_pairs": 200, "encoder": "small"}
FLAGS = [
    *("--preset", "demo", "--epochs", "3", "--subset", "160", "--batch-size", "32", "--projector", "32", "16"),
    *("--action-pairs", "200"),
]


@pytest.fixture
def tiny():
    """An experiment of fifteen steps."""

    def make(**changes):
        return Experiment.preset("demo", **{**TINY, **changes})

    return make


def environment(threads=1):
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "COLUMNS": "200"}


@pytest.fixture
def command():
    """Run `duet ...`; returns the finished process."""

    def run(*arguments, **options):
        line = [sys.executable, "-m", "duet.cli", *map(str, arguments)]
        return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=300, **options)

    return run


@pytest.fixture
def started():
    """Start `duet ...` and return the running process."""
    processes = []

    def start(*arguments):
        line = [sys.executable, "-m", "duet.cli", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(line, env=environment(), **pipes))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()
