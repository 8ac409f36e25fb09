"""The wheel, as a stranger gets it: built, installed far from this repository, and used there."""

import csv
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.making import make_run

ROOT = Path(__file__).parents[1]
COMPILED = shutil.ignore_patterns("__pycache__")
USE = """
import numpy as np
import duet

encoder = duet.load("digits-rot360")
images = np.random.default_rng(0).integers(0, 256, (5, 28, 28, 1), dtype=np.uint8)
print(duet.__file__)
print(*encoder.embed(images).flat.shape)
"""

pytestmark = pytest.mark.slow


def run(*command, cwd):
    """Run a command that must succeed, out of reach of this repository and of every index; its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PIP_NO_INDEX": "1"}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: what an earlier build left in the repository must not get in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "duet", source / "duet", ignore=COMPILED)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    run(sys.executable, "-m", "pip", *build, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    """An environment that has the wheel; its dependencies are those of this environment, which come after."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # Files named by a .pth are not read for further .pth: this environment's editable duet stays unseen.
    behind = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (own / "dependencies.pth").write_text("\n".join(sorted(behind)) + "\n")
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=folder)
    return folder


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "duet").rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("duet/")}
    assert packed == {name for name in files if "__pycache__" not in name}


def test_the_shipped_model_embeds(elsewhere, tmp_path):
    file, shape = run(elsewhere / "bin" / "python", "-c", USE, cwd=tmp_path).splitlines()
    assert Path(file).is_relative_to(elsewhere)
    assert shape == "5 128"


def test_orient_turns_a_folder(elsewhere, tmp_path):
    folder = tmp_path / "drawn"
    folder.mkdir()
    for angle in (0, 60, 200):
        seven = Image.new("L", (28, 28))
        ImageDraw.Draw(seven).line([(8, 7), (19, 7), (12, 22)], fill=255, width=3)
        seven.rotate(angle).save(folder / f"{angle}.png")
    arguments = ("orient", "drawn", "-o", "upright", "--csv", "angles.csv", "--sure", "0", "--model", "digits-rot360")
    run(elsewhere / "bin" / "duet", *arguments, cwd=tmp_path)
    assert {path.name for path in (tmp_path / "upright").iterdir()} == {"0.png", "60.png", "200.png"}
    with (tmp_path / "angles.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 3


def test_presets_and_templates_are_found(elsewhere, tmp_path):
    module = (elsewhere / "bin" / "python", "-m", "duet.cli")
    assert "data: digits" in run(*module, "train", "--preset", "demo", "--print-config", cwd=tmp_path)
    make_run(tmp_path / "run")
    run(*module, "report", "run", "-o", "page.html", cwd=tmp_path)
    assert "</html>" in (tmp_path / "page.html").read_text()
