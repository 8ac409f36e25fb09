"""Names of files from strangers, and folders that cannot be opened: told on one line, counted, and harmless."""

import csv
import os

import numpy as np
import pytest
from PIL import Image

from duet.application.files import Reader, find_files
from duet.application.orientation import orient_files
from duet.cli import main
from duet.data import open_images
from duet.error import DuetError
from duet.report.gathering import _names
from duet.training.run import _list_skipped
from tests.conftest import make_compass

NAMES = ["new\nline", "red\x1b[31m", "bell\x07", "turned\u202egpj", "two\u2028lines", "back\rward", "del\x7f"]


@pytest.fixture
def strange(tmp_path):
    """An image and a broken one under every odd name."""
    folder = tmp_path / "strange"
    folder.mkdir()
    for name in NAMES:
        Image.fromarray(np.full((28, 28), 9, np.uint8)).save(folder / f"{name}.png")
        (folder / f"{name} broken.png").write_bytes(b"no image")
    return folder


def harmless(text):
    return all(line.isprintable() for line in text.split("\n"))


def test_every_skipped_file_is_one_line_of_skipped_txt(strange, tmp_path):
    images = open_images(strange, "all", channels=1)
    _list_skipped(tmp_path, images)
    text = (tmp_path / "skipped.txt").read_text()
    assert harmless(text)
    lines = text.splitlines()
    assert len(lines) == len(NAMES)
    assert r"new\nline broken.png: not an image of a known format" in lines
    assert r"turned\u202egpj broken.png: not an image of a known format" in lines


def test_nothing_of_them_reaches_the_terminal(strange, capsys, caplog):
    encoder = make_compass()
    reader = Reader(encoder, 4)
    assert sum(len(batch.files) for batch in reader.batches(find_files([strange]), None, "x")) == len(NAMES)
    told = capsys.readouterr().err
    assert harmless(told)
    assert told.count("cannot read") == len(NAMES)
    open_images(strange, "all", channels=1)
    assert caplog.records
    assert all(harmless(record.getMessage()) for record in caplog.records)


def test_a_row_of_a_table_is_one_line(strange, tmp_path):
    table = tmp_path / "angles.csv"
    orient_files([strange], make_compass(), table=table, sure=0, write="none")
    assert harmless(table.read_text())
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == len(NAMES) == len(table.read_text().splitlines()) - 1
    assert any(row["path"].endswith(r"new\nline.png") for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_of_the_command_is_one_harmless_line(tmp_path, capsys, name):
    assert main(["embed", str(tmp_path), "--model", str(tmp_path / name), "-o", str(tmp_path / "x.npz")]) == 2
    told = capsys.readouterr().err
    assert harmless(told)
    assert len(told.splitlines()) == 1


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """Three classes, one of them closed, and a closed folder inside another."""
    root, real = tmp_path / "pets", os.scandir
    for place in ("cat", "dog", "dog/secret", "fox"):
        (root / place).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(np.full((28, 28), 9 * number, np.uint8)).save(root / place / f"{number}.png")

    def scandir(path="."):
        if str(path).endswith(("secret", "fox")):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    # Not by their rights: whoever runs as root may open everything.
    monkeypatch.setattr(os, "scandir", scandir)
    return root


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_a_closed_folder_is_counted_and_named_in_training(closed, storage):
    images = open_images(closed, "all", channels=1, storage=storage, workers=0)
    assert images.classes == ("cat", "dog")
    seen = sum(len(pixels) for pixels, _ in images.in_order())
    assert seen == 8
    assert sorted(images.skipped) == [
        "dog/secret: a folder that cannot be opened: Permission denied",
        "fox: a folder that cannot be opened: Permission denied",
    ]


def test_a_closed_folder_is_counted_and_named_by_the_commands(closed, capsys):
    reader = Reader(make_compass(), 4)
    assert sum(len(batch.files) for batch in reader.batches(find_files([closed]), None, "x")) == 8
    told = capsys.readouterr().err
    assert f"cannot read {closed / 'fox'}: a folder that cannot be opened: Permission denied" in told
    assert "2 of 10 files cannot be read" in told


def test_a_folder_that_is_closed_itself_is_one_line(closed):
    with pytest.raises(DuetError, match="cannot be opened: Permission denied"):
        list(Reader(make_compass(), 4).batches(find_files([closed / "fox"]), None, "x"))


def test_class_folders_have_printable_names(tmp_path):
    for name in NAMES:
        (tmp_path / "sorted" / name).mkdir(parents=True)
        Image.fromarray(np.full((28, 28), 9, np.uint8)).save(tmp_path / "sorted" / name / "one.png")
    classes = open_images(tmp_path / "sorted", "all", channels=1).classes
    assert len(set(classes)) == len(NAMES)
    assert all(name.isprintable() for name in classes)


def test_a_folder_for_results_may_have_any_name(strange, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("duet.model.load", lambda name, device, turns=None: make_compass())
    out = tmp_path / NAMES[1]
    assert main(["embed", str(strange), "-o", str(out / "features.parquet"), "--model", "m"]) == 0
    assert main(["orient", str(strange), "--csv", str(out / "b.csv"), "--sure", "0", "--model", "m"]) == 0
    told = capsys.readouterr().out
    assert harmless(told)
    assert told.count("\n") == 2


def test_a_run_in_a_report_has_a_printable_name(tmp_path):
    assert all(name.isprintable() for name in _names([tmp_path / name for name in NAMES]))
