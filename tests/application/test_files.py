"""Files as a stream: in order, in constant memory, the broken ones counted."""

import weakref

import numpy as np
import pytest
import torch
from PIL import Image

from duet.application import files
from duet.application.files import Found, Reader, find_files
from duet.error import DuetError
from tests.conftest import make_compass, random_encoder

from .conftest import marked


@pytest.fixture
def many(tmp_path):
    """Ninety files at three depths, every ninth one broken."""
    for number in range(90):
        path = tmp_path / "many" / str(number % 3) / ("deep" if number % 2 else "") / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 9 == 0:
            path.write_bytes(b"no image")
        else:
            Image.fromarray(np.full((28, 28), number, np.uint8)).save(path)
    return tmp_path / "many"


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 16, 40, 200])
def test_every_file_keeps_its_own_features_in_order(elsewhere, batch_size, many, monkeypatch, capsys):
    """Also where the network computes on another device, while the next files are decoded."""
    encoder = make_compass()
    if elsewhere:
        monkeypatch.setattr(type(encoder), "device", property(lambda self: torch.device("meta")))
    encoder.features = lambda images, batch: images.float().mean((1, 2, 3))[:, None]
    reader, found = Reader(encoder, batch_size), list(find_files([many]))
    batches = list(reader.batches(found, None, "reading"))
    assert (reader.readable, reader.unreadable) == (80, 10)
    read = [
        (file, value)
        for batch in batches
        for file, value in zip(batch.files, batch.features[:, 0].tolist(), strict=True)
    ]
    assert [file for file, _ in read] == [file for file in found if int(file.path.stem) % 9]
    assert all(int(file.path.stem) == value for file, value in read)
    assert max(len(batch.files) for batch in batches) <= batch_size
    assert "10 of 90 files cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("elsewhere", [False, True])
def test_only_a_few_batches_of_images_are_held(elsewhere, tmp_path, monkeypatch):
    """However many files there are."""
    marked(28).save(tmp_path / "one.png")
    alive, most, plain = [], [], files.read_pixels

    def counted(*arguments):
        pixels = plain(*arguments)
        alive.append(weakref.ref(pixels))
        return pixels

    monkeypatch.setattr(files, "read_pixels", counted)
    encoder = make_compass()
    if elsewhere:
        monkeypatch.setattr(type(encoder), "device", property(lambda self: torch.device("meta")))
    encoder.features = lambda images, batch: images.float().mean((1, 2, 3))[:, None]
    reader = Reader(encoder, 32)
    for _ in reader.batches((Found(tmp_path / "one.png", None) for _ in range(1000)), None, "reading"):
        alive[:] = [one for one in alive if one() is not None]
        most.append(len(alive))
    assert reader.readable == 1000
    assert max(most) <= 4 * 32


@pytest.mark.parametrize(("channels", "colour", "warned"), [(1, True, True), (1, False, False), (3, True, False)])
def test_a_model_of_grey_images_warns_of_photos_in_colour(channels, colour, warned, tmp_path, caplog):
    encoder = random_encoder(channels=channels)
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 256, (30, 30, 1), dtype=np.uint8)
        pixels = np.concatenate([pixels, pixels, pixels // 4 if colour else pixels], axis=2)
        Image.fromarray(pixels).save(tmp_path / f"{number}.jpg")
    list(Reader(encoder, 2).batches(find_files([tmp_path]), None, "reading"))
    told = [record.getMessage() for record in caplog.records if "takes grey images" in record.getMessage()]
    assert len(told) == warned
    assert not warned or "2 of the first 2 here are in colour" in told[0]


def test_a_folder_that_does_not_exist_is_said_not_to(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(DuetError, match=r"fotos does not exist .did you mean '.*/photos'"):
        list(find_files([tmp_path / "fotos"]))
