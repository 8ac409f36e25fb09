"""The bar: things of a user's own are one file of theirs, and no file of the package."""

import hashlib
import re
from pathlib import Path

import pytest

import duet
from tests import warm

PACKAGE = Path(duet.__file__).parent
MINE = Path(__file__).with_name("mine.py")
SMALL = [
    *("--preset", "demo", "--epochs", "2", "--warmup-epochs", "0", "--subset", "64", "--batch-size", "32"),
    *("--projector", "16", "8", "--action-pairs", "100", "--lr", "0.01"),
]
RUNS = {
    # A group, an objective under DUET, and a backbone of one's own.
    "tone": ["--group", "gamma", "--contrast", "decorrelate", "--encoder", "mine:build", "--bins", "8"],
    # A method with a hook after the step and parameters of its own.
    "byol": ["--group", "rot360", "--method", "byol", "--option", "decay=0.5", "--encoder", "tiny"],
}
PYTHON = """
import sys
from pathlib import Path

import torch

import duet
import mine
from duet.evaluation import Sizes
from duet.networks import wrap
from duet.report import write_report

small = dict(epochs=1, warmup_epochs=0, subset=64, batch_size=32, projector=[16, 8], action_pairs=100)
sizes = Sizes(images=4, sweep=4, copies=4, probe=32, train=64, test=32, decoder_steps=2)
tone = duet.Experiment.preset("demo", group="gamma", contrast="decorrelate", **small)
byol = duet.Experiment.preset("demo", method="mine:BYOL", options={"decay": 0.5}, encoder="tiny", **small)
backbone = wrap(mine.build(channels=1), channels=1)
runs = [duet.train(tone, "tone", backbone=backbone, quiet=True), duet.train(byol, Path("byol"), quiet=True)]
for run in runs:
    own = wrap(mine.build(channels=1), channels=1) if run.name == "tone" else None
    encoder = duet.load(run, backbone=own)
    assert encoder.embed(torch.rand(2, 1, 28, 28)).flat.shape == (2, encoder.layout.dim)
    context = duet.evaluation.open_context(encoder, sizes=sizes)
    found = duet.evaluate(context, ["norms", "recovery"], out=run / "results", progress=False)
    assert set(found) == {"norms", "recovery"}, found
assert duet.load("byol").provenance["title"] == "BYOL"
page = write_report(runs, Path("both.html")).read_text()
assert "How large are the features?" in page and "Features under tone are" in page
"""


def digest(folder):
    files = sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture
def command(tmp_path):
    """`duet ...` in a folder that holds the user's module; everything is torn down with the process."""
    (tmp_path / "mine.py").write_text(MINE.read_text())

    def run(*words, code=0):
        done = warm.duet(*words, folder=tmp_path)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    return run


@pytest.fixture(scope="module")
def package_before():
    return digest(PACKAGE)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_from_the_command_line(command, tmp_path, name, package_before):
    small = tmp_path / "photos"
    command("train", "--plugin", "mine", *SMALL, *RUNS[name], "--out", name)
    command("evaluate", name, "--plugin", "mine", "--only", "norms", "classification")
    command("report", name, "--plugin", "mine", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "How large are the features?" in page
    assert re.search(r"Features under (tone|rotation) are [\d.]+ long\.", page)
    assert "Lengths of the features of test images." in page
    small.mkdir()
    save_digits(small)
    command("embed", small, "--model", name, "--plugin", "mine", "-o", "features.parquet")
    if name == "tone":
        import pyarrow.parquet as pq

        assert {"gamma", "gamma_spread"} <= set(pq.read_schema(tmp_path / "features.parquet").names)
    command("export", name, "--plugin", "mine", "-o", "model.pt2")
    command("train", "--resume", name, "--epochs", "3", "--plugin", "mine")
    assert digest(PACKAGE) == package_before


@pytest.mark.slow
def test_from_python(tmp_path, package_before):
    (tmp_path / "mine.py").write_text(MINE.read_text())
    (tmp_path / "script.py").write_text(PYTHON)
    done = warm.script(tmp_path / "script.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert digest(PACKAGE) == package_before


@pytest.mark.slow
def test_a_file_never_makes_us_import_anything(command, tmp_path):
    """Without --plugin a run says which module it needs; the module leaves a mark when it is imported."""
    command("train", "--plugin", "mine", *SMALL, *RUNS["tone"], "--out", "tone")
    mark = tmp_path / "imported"
    (tmp_path / "mine.py").write_text(f"open({str(mark)!r}, 'w')\n" + MINE.read_text())
    for words in (
        ["evaluate", "tone"],
        ["embed", "mine.py", "--model", "tone", "-o", "f.npz"],
        ["train", "--resume", "tone", "--epochs", "4"],
        ["train", "--config", "tone/config.yaml", "--out", "again"],
    ):
        _, err = command(*words, code=2)
        assert "--plugin mine" in err.splitlines()[-1]
        assert not mark.exists()
    command("evaluate", "tone", "--plugin", "mine", "--only", "norms")
    assert mark.exists()


@pytest.mark.slow
def test_what_a_plugin_registers_is_listed_and_typed_names_are_adopted(command):
    for kind, word in (("groups", "gamma"), ("methods", "byol"), ("evaluations", "How large are the features?")):
        assert word in command("list", kind, "--plugin", "mine")[0]
        assert word not in command("list", kind)[0]
    assert "contrast: decorrelate" in command("train", *SMALL, "--contrast", "mine:decorrelate", "--print-config")[0]
    shown = command("train", *SMALL, "--group", "mine:Gamma", "--method", "mine:BYOL", "--print-config")[0]
    assert "group: [gamma]" in shown
    assert "method: byol" in shown
    assert "plugins: [mine]" in shown
    err = command("train", "--plugin", "mine", *SMALL, "--method", "byol", "--option", "decai=1", code=2)[1]
    assert "did you mean 'decay'?" in err
    assert "cannot import 'min'" in command("list", "groups", "--plugin", "min", code=2)[1]


def test_nothing_in_the_package_knows_of_it():
    words = re.compile(r"(?i:gamma\b|byol|decorrelate)|\bNorms\b")
    known = [str(p) for p in PACKAGE.rglob("*.py") if words.search(p.read_text())]
    assert known == []


def save_digits(folder):
    from PIL import Image

    from duet.data import open_images

    for number, image in enumerate(open_images("digits", channels=1, subset=10).tensors()[0]):
        Image.fromarray(image[0].numpy()).save(folder / f"{number}.png")
