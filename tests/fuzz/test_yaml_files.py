"""Hundreds of wrong YAML files: configurations of runs and studies, changed as text and as values."""

import random

import pytest
import yaml

from duet import Experiment
from tests.fuzz.mutation import fault, mutate_text, mutate_tree, outcome

RUNS = [
    Experiment.preset("demo").to_dict(),
    Experiment.preset("cpu", group=["rot360", "hue"], layout="joint", bins=4, seed=3).to_dict(),
    {
        "method": "essl",
        "group": "rot4",
        "data": "cifar10",
        "options": {"weight": 0.5},
        "lr": 1e-3,
        "projector": [64, 32],
    },
]
STUDIES = [
    {
        "base": {"preset": "demo", "epochs": 2},
        "vary": {"method": ["simclr", {"name": "duet0", "method": "duet", "weight": 0}, "duet"], "seed": [0, 1]},
        "change": [{"when": {"method": "simclr"}, "set": {"lr": 0.01}}],
        "skip": [{"method": "duet", "seed": 1}],
        "evaluate": ["classification"],
        "effort": "quick",
    },
    {"base": {"data": "digits"}, "vary": {"group": ["rot360", ["rot4", "hue"]]}, "transfer": ["cifar10"]},
]
TAGGED = [
    *(
        "lr: !!bool 3",
        "lr: !!timestamp x",
        "lr: !!int ''",
        "lr: !!float ''",
        "lr: 2001-99-99",
        "seed: 0x_",
        "lr: !!null 3",
    ),
    *("lr: " + "[" * 3000, "lr: " + "{a: " * 3000, "- " * 3000, "[" * 3000 + "]" * 3000, "seed: 0x" + "f" * 5000),
    *(
        "seed: " + "9" * 5000,
        "seed: 18446744073709551616",
        "dim: 10000000000",
        "projector: [10000000000]",
        "bins: 1e12",
    ),
    *("projector: [65536, 65536]", "projector: &a [*a]", "options: &a {b: *a}", "group: !!set {rot4}", "? [1]\n: 2"),
    *("? !!timestamp 2001-01-01\n: 3", "lr: !!python/name:os.system", "<<: 3", "\x00", "\ufeff", "lr: !!binary x"),
]


def trial(capsys, path, words, text):
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    code, said = outcome(capsys, words)
    assert fault(code, said) is None, (text, said)
    return code


def changed(right, drawn):
    """A text: half of them of changed values, half of changed letters."""
    plain = drawn.choice(right)
    if drawn.random() < 0.5:
        return yaml.safe_dump(mutate_tree(plain, drawn), allow_unicode=drawn.random() < 0.5)
    return mutate_text(yaml.safe_dump(plain, default_flow_style=drawn.random() < 0.5, width=10_000), drawn)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The commands that show what a file asks for; nothing else lies in the folder."""
    monkeypatch.chdir(tmp_path)
    return {
        "run": ["train", "--config", "file.yaml", "--print-config"],
        "study": ["study", "run", "file.yaml", "--out", "out", "--dry-run"],
        "lines": ["study", "commands", "file.yaml", "--out", "out"],
    }


def test_a_changed_configuration_is_a_plan_or_one_line(capsys, fuzz, tmp_path, commands):
    drawn = random.Random(fuzz.seed + 3)
    codes = [
        trial(capsys, tmp_path / "file.yaml", commands["run"], changed(RUNS, drawn)) for _ in range(fuzz.times * 400)
    ]
    assert 0.05 < codes.count(0) / len(codes) < 0.9


def test_a_changed_study_is_a_plan_or_one_line(capsys, fuzz, tmp_path, commands):
    drawn = random.Random(fuzz.seed + 4)
    for number in range(fuzz.times * 300):
        trial(
            capsys, tmp_path / "file.yaml", commands["lines" if number % 3 == 0 else "study"], changed(STUDIES, drawn)
        )


@pytest.mark.parametrize("text", TAGGED, ids=lambda text: ascii(text[:20]))
def test_a_value_that_is_not_what_it_says_is_one_line(capsys, tmp_path, commands, text):
    codes = [trial(capsys, tmp_path / "file.yaml", commands[kind], text) for kind in ("run", "study")]
    assert codes == [2, 2]
