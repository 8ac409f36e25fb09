"""A run finds its images from any working folder; nothing but its own folder tells where on a disk they lay."""

import json
import logging

import numpy as np
import pytest
from PIL import Image

import duet
from duet.cli import main
from duet.data.place import FILE
from duet.evaluation.suite import open_context
from duet.explorer.opening import open_explorer
from duet.training import resume, train
from duet.training import run as running

CHANGES = {"channels": 3, "image_size": 24, "encoder": "tiny", "subset": None, "action_pairs": 0, "epochs": 1}


@pytest.fixture
def trained(tmp_path, monkeypatch, tiny):
    """A run that was trained on ./photos, and then another working folder."""
    folder = tmp_path / "secret" / "photos"
    folder.mkdir(parents=True)
    for number in range(60):
        pixels = np.random.default_rng(number).integers(0, 256, (28, 28, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    monkeypatch.chdir(folder.parent)
    run = train(tiny(data="photos", **CHANGES, batch_size=16, warmup_epochs=0), tmp_path / "run", quiet=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return run


def files_that_tell(folder, secret="secret"):
    """Names of the files below a folder that hold a word."""
    return {path.name for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()}


def test_a_run_is_evaluated_and_explored_from_any_folder(trained, tmp_path, caplog):
    context = open_context(trained, sizes="quick")
    assert (len(context.train), len(context.test)) == (48, 12)
    assert context.subfolder == ""
    own = open_context(trained, sizes="quick", data=str(tmp_path / "secret" / "photos"))  # they are its own
    assert (own.subfolder, own.provenance()) == ("", context.provenance())
    assert len(open_explorer(trained / "model").images) == 12
    assert main(["evaluate", str(trained), "--only", "marginals", "--sizes", "quick", "--no-rivals"]) == 0
    assert files_that_tell(trained) == {FILE}


def test_nothing_but_its_folder_tells_where_the_images_lay(trained, tmp_path):
    assert json.loads((trained / FILE).read_text())["absolute"] == str(tmp_path / "secret" / "photos")
    assert files_that_tell(trained) == {FILE}
    encoder = duet.load(trained)
    assert "secret" not in repr(encoder.provenance)
    encoder.save(tmp_path / "saved")
    assert main(["export", str(trained), "-o", str(tmp_path / "exported"), "--format", "model"]) == 0
    assert files_that_tell(tmp_path / "saved") == files_that_tell(tmp_path / "exported") == set()


def test_images_that_are_gone_are_asked_for(trained, tmp_path, caplog):
    gone = (tmp_path / "secret").rename(tmp_path / "moved")
    with pytest.raises(duet.DuetError, match=r"secret/photos does not exist.*; name them with --data"):
        open_context(trained)
    explorer = open_explorer(trained)
    assert (
        "secret/photos does not exist, where this model's images were; name them with --data. Drop an image of yours"
        in explorer.missing
    )
    assert "cannot be opened" in caplog.text
    assert len(open_explorer(trained, data=str(gone / "photos")).images) == 12
    with pytest.raises(duet.DuetError, match="no data 'nothing'"):
        open_explorer(trained, data="nothing")
    assert len(open_context(trained, data=str(gone / "photos")).test) == 12


def test_a_run_is_resumed_from_any_folder(trained, monkeypatch):
    opened = []
    real = running.open_data
    monkeypatch.setattr(running, "open_data", lambda experiment: opened.append(experiment.data) or real(experiment))
    assert resume(trained, epochs=2, quiet=True)
    assert opened[0].endswith("secret/photos")
    assert "data: photos " in (trained / "config.yaml").read_text()
    assert files_that_tell(trained) == {FILE}


def test_records_of_a_study_do_not_tell_it(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "secret")
    plain = f"base: {{preset: demo, data: photos, {', '.join(f'{k}: {json.dumps(v)}' for k, v in CHANGES.items())}, "
    plain += "batch_size: 16, warmup_epochs: 0, projector: [16, 8]}\nevaluate: [marginals]\neffort: quick\n"
    (tmp_path / "my.yaml").write_text(plain + "baselines: false\n")
    assert main(["study", "run", str(tmp_path / "my.yaml"), "--out", str(tmp_path / "study")]) == 0
    assert list((tmp_path / "study" / "results").glob("*.json"))
    assert files_that_tell(tmp_path / "study" / "results") == set()
    assert files_that_tell(tmp_path / "study") <= {FILE}


def test_splits_are_announced_with_their_numbers(trained, tmp_path, tiny, caplog, monkeypatch):
    assert duet.load(trained).provenance["split"] == "48 train / 12 test (held out; --split to change)"
    assert "| split | 48 train / 12 test (held out; --split to change) |" in (trained / "model/README.md").read_text()
    monkeypatch.chdir(tmp_path / "secret")
    with caplog.at_level(logging.INFO):
        values = {**CHANGES, "batch_size": 16, "warmup_epochs": 0, "split": "all"}
        whole = train(tiny(data="photos", **values), tmp_path / "whole", quiet=True)
    assert "photos: 60 train (nothing is held out for tests)" in caplog.text
    with pytest.raises(duet.DuetError, match=r"trained on all its images.*name others with --data"):
        open_context(whole)
    assert "trained on all its images" in open_explorer(whole).missing
