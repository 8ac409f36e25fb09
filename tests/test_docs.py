"""Every code block and command of the README and the guide runs, on small images and small models."""

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import duet
from duet import GROUPS
from duet.cli import main
from duet.evaluation import EVALUATIONS, SIZES
from duet.methods import METHODS
from tests.conftest import confident

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
SMALL = [
    *("--epochs", "1", "--warmup-epochs", "0", "--subset", "64", "--batch-size", "32", "--accumulate", "1"),
    *("--encoder", "tiny", "--projector", "16", "8", "--action-pairs", "100", "--image-size", "28"),
]
STUDY = "epochs: 1, subset: 64, batch_size: 32, encoder: tiny, image_size: 28, action_pairs: 0, calibrate: false"
ENCODER = """
import torch

def build(channels=1):
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
"""
HEAVY = re.compile(r"--devices|--nodes|torchrun|srun")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    values = {"epochs": 1, "subset": 64, "batch_size": 32, "encoder": "tiny", "projector": [16, 8], "action_pairs": 100}
    run = duet.train(duet.Experiment.preset("demo", **values), tmp_path_factory.mktemp("docs") / "run", quiet=True)
    confident(duet.load(run)).save(run / "model")  # as if it had been trained on enough images
    return run


@pytest.fixture
def workplace(tmp_path, trained, monkeypatch):
    """A folder as a reader would have it: photos, a trained run, a module of one's own."""
    for number in range(90):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    for name in ("scans", "cells"):
        shutil.copytree(tmp_path / "photos", tmp_path / name)
    (tmp_path / "my.yaml").write_text(f"base: {{preset: demo, data: {tmp_path / 'photos'}, {STUDY}}}\nsizes: quick\n")
    own = ("duet-rot360-digits", "simclr-rot360-digits", "duet-rot360-scans", "duet-rot360-cells")
    for name in ("demo/duet", "demo/simclr", "duet-hue-cifar10-lambda10", *own):
        shutil.copytree(trained, tmp_path / "runs" / name)
    for name in ("module", "models"):
        (tmp_path / "mypkg").mkdir(exist_ok=True)
        (tmp_path / "mypkg" / f"{name}.py").write_text(ENCODER)
    small = replace(SIZES["demo"], images=8, sweep=8, copies=8, probe=64, train=100, test=50, decoder_steps=2)
    monkeypatch.setitem(SIZES, "demo", small)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    registries = (GROUPS, METHODS, EVALUATIONS)
    before = [dict(known) for known in registries]
    yield tmp_path
    for known, kept in zip(registries, before, strict=True):
        known.clear()
        known.update(kept)


def blocks(page, *languages):
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [(language, text) for language, text in found if language in languages]


def lines(text):
    """The commands of a block, without comments."""
    found = [line.split("  #")[0].strip() for line in text.splitlines()]
    return [line for line in found if re.match(r"(duet|torchrun|srun) ", line)]


def commands():
    """Every command once, where it stands first."""
    first = {}
    for page in PAGES:
        for _, text in blocks(page, ""):
            for line in lines(text):
                first.setdefault(line, page.stem)
    return [pytest.param(line, id=f"{stem}: {line[:60]}") for line, stem in first.items()]


def run_line(line):
    words = shlex.split(re.sub(r"^(torchrun|srun) .*?(-m duet\.cli|duet) ", "duet ", line))[1:]
    if words[0] == "train" and "--resume" not in words:
        # Many devices and downloads are not for a test: there the configuration must be right.
        words += ["--print-config"] if HEAVY.search(line) else [*SMALL, "--data", "photos"]
        words += [] if "--out" in words or HEAVY.search(line) else ["--out", "trained-here"]
    elif words[0] == "evaluate":
        words += ["--data", "digits", "--channels", "1"] if "--encoder" in words else []
        words += [] if "--only" in words else ["--only", "retrieval"]
    elif words[0] == "orient" and not {"--model", "--undo", "--forget"} & set(words):
        words += ["--model", "runs/duet-rot360-digits"]  # noise is of no kind that a shipped model knows
    elif words[0] == "reproduce":
        words += [] if "--dry-run" in words else ["--dry-run"]
    elif words[0] == "explore":  # it serves until it is stopped: the browser tests do that
        words = ["explore", "--help"]
    return main(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_blocks_run_from_top_to_bottom(page, workplace):
    torch.manual_seed(0)
    names = {"images": torch.rand(4, 1, 28, 28)} if page.stem == "README" else {}
    for language, text in blocks(page, "python", "bash"):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
        else:
            for line in lines(text):
                assert run_line(line) == 0, line


@pytest.mark.parametrize("line", commands())
def test_commands_run(line, workplace, capsys):
    assert run_line(line) == 0, capsys.readouterr().err


def test_the_guide_has_examples():
    assert sum(len(blocks(page, "python")) for page in PAGES) > 30
    assert len(commands()) > 10
