"""The guides of trained models and of one's own training loop run from top to bottom."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duet import hub
from duet.cli import main

from .conftest import random_encoder

GUIDE = Path(__file__).parents[1] / "docs" / "guide"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with photos/, and a stand-in for the shipped model."""
    random_encoder().save_pretrained(tmp_path / "shipped" / "digits-rot360")
    monkeypatch.setattr(hub, "MODELS", tmp_path / "shipped")
    (tmp_path / "work" / "photos").mkdir(parents=True)
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "work" / "photos" / f"{number}.png")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def run_blocks(path):
    names, kinds = {}, []
    for kind, block in re.findall(r"```(python|bash)\n(.*?)```", path.read_text(), flags=re.DOTALL):
        kinds.append(kind)
        if kind == "python":
            exec(compile(block, str(path), "exec"), names)
        else:
            for line in block.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "duet"
                assert main(arguments) == 0, line
    return kinds


def test_the_guide_to_models_runs(workplace):
    kinds = run_blocks(GUIDE / "models.md")
    assert kinds.count("python") >= 8
    assert kinds.count("bash") == 3
    assert (workplace / "upright" / "0.png").exists()


@pytest.mark.filterwarnings("ignore")
def test_the_training_loops_run():
    assert run_blocks(GUIDE / "own-loop.md") == ["python", "python"]
