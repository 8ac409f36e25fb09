"""Whatever is written when the disk fills up: one line, what was there stays whole, nothing half written is left."""

import contextlib
import errno
import os

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import SafetensorError

import duet.file
from duet.application import embed_files
from duet.cli import main
from duet.evaluation import Result
from duet.file import NoSpace, whole_file, whole_files, write_json
from duet.model.checkpoint import write_checkpoint

from .conftest import random_encoder

resource = pytest.importorskip("resource")


@contextlib.contextmanager
def room_for(size):
    """No file may grow beyond so many bytes, for every library of this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def checkpoint(folder, number):
    write_checkpoint({"weights": torch.full((3000,), float(number)), "step": number}, folder / "last.safetensors")


def model(folder, number):
    random_encoder(seed=number).save(folder)


def representation(folder, number):
    random_encoder().representation(torch.full((50, 128), float(number))).save(folder / "features.safetensors")


def result(folder, number):
    Result("mine", {"x": float(number)}, {"a": np.random.default_rng(number).random(2000)}).save(folder)


def plain(folder, number):
    write_json(folder / "card.json", {"number": number, "more": ["x" * 100] * 30})


def table(ending):
    def write(folder, number):
        photos = folder.parent / f"photos{number}"
        photos.mkdir(exist_ok=True)
        for which in range(6):
            pixels = np.random.default_rng(10 * number + which).integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(photos / f"{which}.png") if not (photos / f"{which}.png").exists() else None
        embed_files([photos], folder / f"table.{ending}", random_encoder())

    write.__name__ = ending
    return write


KINDS = [checkpoint, model, representation, result, plain, table("npz"), table("parquet")]


@pytest.mark.parametrize("save", KINDS, ids=lambda save: save.__name__)
def test_a_full_disk_leaves_the_last_good_state_and_the_next_try_goes_through(tmp_path, save):
    folder, wanted = tmp_path / "folder", tmp_path / "wanted"
    save(wanted, 2)
    save(folder, 1)
    before, largest = files_in(folder), max(map(len, files_in(wanted).values()))
    for size in (0, 100, largest // 2, largest - 1):
        with room_for(size), pytest.raises(NoSpace, match=r"no space left to write .*; free some and") as full:
            save(folder, 2)
        assert ".partial" not in str(full.value)
        assert files_in(folder) == before
        assert not list(folder.rglob(".partial*"))
    save(folder, 2)
    new = {name: content for name, content in files_in(folder).items() if name != "README.md"}  # a card stays
    assert new == {name: content for name, content in files_in(wanted).items() if name != "README.md"}


@pytest.mark.parametrize("save", [model, result], ids=lambda save: save.__name__)
@pytest.mark.parametrize("last", [1, 2])
def test_files_that_belong_together_stay_together(tmp_path, monkeypatch, save, last):
    """Some file systems say only when a file is brought to the disk that there is no space for it."""
    save(tmp_path / "folder", 1)
    before, real, count = files_in(tmp_path / "folder"), os.fsync, [0]

    def full(handle):
        count[0] += 1
        if count[0] == last:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(duet.file.os, "fsync", full)
        with pytest.raises(NoSpace):
            save(tmp_path / "folder", 2)
    assert count[0] == last
    assert files_in(tmp_path / "folder") == before


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        SafetensorError('Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space" })'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_way_to_say_so_is_understood(tmp_path, error):
    with pytest.raises(NoSpace, match=r"left to write .*a\.txt;"), whole_file(tmp_path / "a.txt"):
        raise error

    def masked():
        with whole_files(tmp_path / "a.txt", tmp_path / "b.txt"):
            try:
                raise error
            finally:
                raise ValueError("the archive is still open")

    with pytest.raises(NoSpace):
        masked()
    assert list(tmp_path.iterdir()) == []


def test_other_errors_stay_what_they_are(tmp_path):
    for error in (OSError(errno.EACCES, "Permission denied"), ValueError("os error 5"), RuntimeError("28")):
        with pytest.raises(type(error)) as raised, whole_file(tmp_path / "a.txt"):
            raise error
        assert raised.value is error


def test_the_command_says_it_in_one_line(tmp_path, capsys):
    random_encoder().save(tmp_path / "model")
    Image.new("L", (28, 28)).save(tmp_path / "a.png")
    line = ["embed", str(tmp_path / "a.png"), "--model", str(tmp_path / "model"), "-o", str(tmp_path / "t.npz")]
    with room_for(100):
        code = main(line)
    said = capsys.readouterr().err.strip().splitlines()
    assert (code, said) == (2, [f"duet: no space left to write {tmp_path / 't.npz'}; free some and try again"])
    assert main(line) == 0
