"""Thousands of wrong command lines: each ends with a plan, or with one line and exit code 2."""

import random

import pytest

from duet.cli import COMMANDS, parse
from tests.fuzz.mutation import fault, mutate_words, outcome

PLANNED = [
    ["train", "--preset", "demo", "--group", "rot360", "--epochs", "3", "--lr", "0.001"],
    ["train", "--method", "essl", "--group", "rot4", "--data", "cifar10", "--projector", "64", "32", "--seed", "1"],
    [
        "train",
        "--group",
        "rot360",
        "hue",
        "--layout",
        "joint",
        "--bins",
        "4",
        "--area",
        "0.3",
        "1",
        "--option",
        "weight=3",
    ],
    ["train", "--trunk", "lite0", "--data", "photos", "--cached-views", "4", "--unfreeze", "blocks.6", "--dim", "128"],
    ["reproduce", "rrc-plus-one", "--seeds", "1", "--only", "rot4-duet"],
]
"""Right lines of commands that show what they would do: --print-config or --dry-run is added after the changes."""
ENDING = {"train": "--print-config", "reproduce": "--dry-run"}
REFUSED = [
    ["train", "--resume", "no-run", "--epochs", "9"],
    ["evaluate", "no-run", "--only", "recovery", "--sizes", "quick", "--seed", "1"],
    ["embed", "no-photos", "-o", "out.parquet", "--model", "no-run", "--batch-size", "8", "--turns", "2"],
    ["orient", "no-photos", "--model", "no-run", "--csv", "a.csv", "--range", "15", "--sure", "0.5"],
    ["align", "no-photos", "--model", "no-run", "--csv", "a.csv", "--turns", "4"],
    ["export", "no-run", "-o", "model.onnx", "--format", "onnx"],
    ["score", "no-run", "--group", "rot360", "--data", "digits", "--seed", "1", "--image-size", "8"],
    ["report", "no-run", "-o", "page.html"],
    ["study", "run", "no-file.yaml", "--out", "runs", "--jobs", "2", "--dry-run"],
    ["study", "table", "no-folder", "--rows", "method", "--where", "seed=1"],
]
"""Lines about things that are not there: nothing can begin, whatever is changed."""
READ = [["explore", "no-run", "--port", "7000"], ["demo", "--out", "runs"], ["list", "groups"]]
"""Lines of commands that are only read here."""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """No file has a name that a mutation might make up, and the network is not asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("DUET_DATA", raising=False)


def flags_of(words):
    """Every option of a command."""
    parser = parse(words).parser
    return sorted(
        flag
        for action in parser._actions
        for flag in action.option_strings
        if flag not in ("-h", "--help", "--version", "--traceback", "--plugin")
    )


def lines(right, count, seed):
    """So many changed lines, each of the right ones in turn."""
    drawn = random.Random(seed)
    flags = [flags_of(words) for words in right]
    for number in range(count):
        which = number % len(right)
        changed = mutate_words(right[which][1:], drawn, flags[which])
        yield [right[which][0], *changed]


def test_a_changed_plan_is_a_plan_or_one_line(capsys, fuzz):
    codes = []
    for words in lines(PLANNED, fuzz.times * 700, fuzz.seed):
        line = [*words, ENDING[words[0]]]
        code, said = outcome(capsys, line)
        assert fault(code, said) is None, (line, said)
        codes.append(code)
    assert 0.05 < codes.count(0) / len(codes) < 0.9  # neither all refused nor none


def test_what_is_not_there_is_one_line_whatever_else_is_said(capsys, fuzz, tmp_path):
    for words in lines(REFUSED, fuzz.times * 500, fuzz.seed + 1):
        code, said = outcome(capsys, words)
        assert fault(code, said) is None, (words, said)
    assert not list(tmp_path.iterdir())


def test_words_are_read_or_refused(capsys, fuzz):
    for words in lines(READ, fuzz.times * 100, fuzz.seed + 2):
        try:
            parse(words)
        except SystemExit as leaving:
            code = leaving.code
        else:
            code = 0
        said = capsys.readouterr().err
        assert fault(code, said) is None, (words, said)


def test_every_command_is_among_them():
    tried = {words[0] for words in (*PLANNED, *REFUSED, *READ)}
    assert tried == {command.name for command in COMMANDS}
