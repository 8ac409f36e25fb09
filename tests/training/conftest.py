"""Small runs, in this process and as the command."""

import os

import pytest

from duet import Experiment
from tests import warm

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
    return lambda *words: warm.duet(*words, COLUMNS=200)


@pytest.fixture
def started():
    """Start `duet ...` and return the running process."""
    processes = []

    def start(*words):
        processes.append(warm.Running(words, COLUMNS=200))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def held():
    """Start `duet ...`, held before each call of the function at a place in the code."""
    processes = []

    def start(place, *words):
        processes.append(warm.Held(place, *words, COLUMNS=200))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
