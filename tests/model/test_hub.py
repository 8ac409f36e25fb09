"""Models by folder, by shipped name and on the Hub, where nothing but tensors and text is ever taken."""

import os
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch

import duet
from duet.model import hub
from duet.model.card import model_card
from tests.conftest import random_encoder


@pytest.fixture
def saved(encoder, tmp_path):
    return encoder.save(tmp_path / "saved")


@pytest.fixture
def images():
    return torch.rand(4, 1, 28, 28)


def test_a_saved_model_comes_back_the_same(encoder, saved, images):
    assert sorted(os.listdir(saved)) == ["README.md", "config.json", "model.safetensors"]
    for again in (duet.load(saved), duet.load(str(saved)), duet.load(saved, device="cpu")):
        assert torch.equal(again.embed(images).flat, encoder.embed(images).flat)
        assert again.provenance == encoder.provenance
        assert {name: list(own) for name, own in again.actions.items()} == {"rot360": ["fitted"]}


def test_a_run_is_loaded_by_its_own_folder(saved, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(saved, run / "model")
    assert duet.load(run).image_size == (28, 28)


def test_other_files_of_the_folder_stay_and_so_does_a_card(encoder, saved):
    (saved / "notes.txt").write_text("mine")
    (saved / "README.md").write_text("my card")
    encoder.save(saved)
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "README.md").read_text() == "my card"


def test_the_card_tells_what_the_model_is(saved):
    card = (saved / "README.md").read_text()
    for word in ("library_name: duet", "DUET", "28x28 grey", "128 features", "rot360", "digits", "## Limits"):
        assert word in card
    other = random_encoder(method="simclr")
    simclr = model_card(other, other.provenance)
    assert "no table" in simclr
    assert "recover" not in simclr


def test_a_published_model_does_not_tell_where_its_images_lay(tmp_path):
    random_encoder(data="/home/somebody/private/cats").save(tmp_path, public=True)
    for name in ("README.md", "config.json"):
        text = (tmp_path / name).read_text()
        assert "cats" in text
        assert "somebody" not in text


def test_a_model_of_ones_own_finds_its_images_again(tmp_path):
    random_encoder(data="/home/somebody/private/cats").save(tmp_path)
    assert duet.load(tmp_path).provenance["data"]["source"] == "/home/somebody/private/cats"
    assert "somebody" in (tmp_path / "config.json").read_text()


def test_a_shipped_name_is_found_in_the_package_before_any_folder(saved, monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "MODELS", tmp_path / "models")
    shutil.copytree(saved, tmp_path / "models" / "little")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "little").mkdir()
    assert duet.load("little").layout.dim == 128
    for folder in ("./little", Path("little")):
        with pytest.raises(ValueError, match="no model in little"):
            duet.load(folder)
    with pytest.raises(ValueError, match=r"no model 'litle' .did you mean 'little'"):
        duet.load("litle")


@pytest.mark.parametrize("name", ["nothing", "./a/b", "a/b/c", "/no/such/folder", "-x/y", "../a"])
def test_what_cannot_be_a_hub_id_never_reaches_for_the_network(name, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked the Hub"))
    with pytest.raises(ValueError, match="no model"):
        duet.load(name)


def test_a_hub_id_is_downloaded_by_pattern_only(encoder, saved, monkeypatch, images):
    asked = {}

    def download(repo_id, **options):
        asked.update(options, repo_id=repo_id)
        return str(saved)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    again = duet.load("someone/model", revision="v1")
    assert torch.equal(again.embed(images).flat, encoder.embed(images).flat)
    patterns = ["config.json", "model.safetensors", "README.md"]
    assert asked == {"repo_id": "someone/model", "revision": "v1", "allow_patterns": patterns}


def test_a_repository_that_is_no_model_is_refused(monkeypatch, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    with pytest.raises(ValueError, match="is not a duet model"):
        duet.load("someone/other")


def test_without_network_one_line_says_so(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"no model 'someone/model'.*Hub \(") as error:
        duet.load("someone/model")
    assert "\n" not in str(error.value)


class Api:
    """Records what would be sent."""

    sent = None
    has_card = False

    def __init__(self, token=None):
        self.token = token

    def create_repo(self, repo_id, **options):
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

    def file_exists(self, repo_id, name):
        return self.has_card

    def upload_folder(self, folder_path, **options):
        files = set(os.listdir(folder_path)) & set(options["allow_patterns"])
        Api.sent = {**options, "files": sorted(files), "token": self.token}
        return "https://huggingface.co/someone/model/commit/1"


@pytest.mark.parametrize("has_card", [False, True])
def test_pushing_sends_the_model_and_never_replaces_a_card(encoder, monkeypatch, has_card):
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(Api, "has_card", has_card)
    assert encoder.push_to_hub("someone/model", token="t").endswith("commit/1")
    card = [] if has_card else ["README.md"]
    assert Api.sent["files"] == [*card, "config.json", "model.safetensors"]
    assert (Api.sent["repo_id"], Api.sent["token"]) == ("someone/model", "t")


def test_a_failed_push_is_one_line(encoder, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no\nway")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(Api, "upload_folder", fail)
    with pytest.raises(ValueError, match=r"cannot push to 'someone/model' on the Hub: no$"):
        encoder.push_to_hub("someone/model")


@pytest.mark.parametrize("damage", ["truncate", "layout", "json", "size"])
def test_a_damaged_model_is_refused_in_one_line(saved, damage):
    config, weights = saved / "config.json", saved / "model.safetensors"
    if damage == "truncate":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif damage == "json":
        config.write_text("{")
    elif damage == "layout":
        config.write_text(config.read_text().replace('"content": 16', '"content": 17'))
    else:
        config.write_text(config.read_text().replace("28,", '"x",'))
    with pytest.raises(ValueError, match="saved") as error:
        duet.load(saved)
    assert "\n" not in str(error.value)


def test_the_encoder_gives_parameters_in_their_own_unit(compass):
    image = torch.zeros(1, 1, 28, 28)
    image[..., 13:15, 2:4] = 1  # to the left: a quarter turn counter-clockwise from the top
    rep = compass.embed(image)
    found = compass.recover(rep)
    assert found.value.item() == pytest.approx(90, abs=1)
    assert found.spread.item() == pytest.approx(360 * rep.recover().spread.item())
