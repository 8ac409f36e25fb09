"""A model on disk: it comes back equal, and a stranger's folder cannot harm."""

import json

import pytest
import torch
from safetensors.torch import save_file

import duet
from duet.model import Encoder, load
from duet.training.experiment import Experiment, build_layout
from duet.networks import OnlineHead, build_backbone, wrap
from duet.representation import FittedAction


def model(**changes):
    torch.manual_seed(0)
    experiment = Experiment(encoder="tiny", channels=1, **changes)
    backbone = build_backbone("tiny", channels=1)
    backbone.normalise_by(torch.tensor([0.1]), torch.tensor([0.3]))
    z, by = torch.randn(500, 128), torch.rand(500)
    action = FittedAction.fit(z, z.roll(1, 1), by, cyclic=True, order=1)
    names = tuple("0123456789")
    return Encoder(
        backbone, build_layout(experiment, 128), experiment, (28, 28), OnlineHead(128, 10), {"rot360": action}, names
    )


@pytest.fixture
def folder(tmp_path):
    save(model(), tmp_path / "model")
    return tmp_path / "model"


def test_it_comes_back_equal(folder):
    before, after = model(), load(folder)
    images = torch.rand(5, 1, 28, 28)
    assert torch.equal(before.features(images), after.features(images))
    assert after.experiment == before.experiment
    assert after.layout == before.layout
    assert after.classes == before.classes
    assert after.image_size == (28, 28)
    z = after.features(images)
    assert torch.equal(
        before.actions["rot360"](z, torch.full((5,), 0.2)), after.actions["rot360"](z, torch.full((5,), 0.2))
    )
    assert torch.equal(before.head.linear.weight, after.head.linear.weight)
    assert not after.training


def test_the_same_model_gives_the_same_bytes(folder, tmp_path):
    save(model(), tmp_path / "again")
    for name in ("model.safetensors", "config.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_saving_again_replaces_the_whole_folder(folder):
    (folder / "left-over").write_text("x")
    save(model(weight=3.0), folder)
    assert load(folder).experiment.weight == 3.0
    assert not (folder / "left-over").exists()
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_a_runs_folder_is_a_model_too(folder):
    assert isinstance(duet.load(folder.parent), duet.Encoder)
    assert isinstance(duet.load(str(folder)), duet.Encoder)


def test_images_of_any_kind_of_number(folder):
    encoder = load(folder)
    pixels = torch.randint(256, (3, 1, 28, 28), dtype=torch.uint8)
    assert torch.allclose(encoder.features(pixels), encoder.features(pixels.float() / 255), atol=1e-5)
    assert encoder.features(pixels[:0]).shape == (0, 128)


def test_batches_do_not_matter(folder):
    encoder, images = load(folder), torch.rand(7, 1, 28, 28)
    assert torch.allclose(encoder.features(images, batch=2), encoder.features(images), atol=1e-5)


def damage(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def rename_group(folder, name):
    config = json.loads((folder / "config.json").read_text())
    damage(folder, experiment={**config["experiment"], "group": [name], "channels": config["experiment"]["channels"]})


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "no model in"),
        (lambda f: (f / "config.json").write_text("{"), "cannot read"),
        (lambda f: (f / "config.json").write_text("[]"), "not the configuration"),
        (lambda f: damage(f, format=99), "format 99"),
        (lambda f: damage(f, experiment={"encoder": "os.system"}), "no encoder"),
        (lambda f: damage(f, experiment={"bins": "x"}), "whole number"),
        (lambda f: damage(f, layout={"kind": "round"}), "no layout"),
        (lambda f: damage(f, layout={}), "layout"),
        (lambda f: damage(f, layout=None), "whole duet model"),
        (lambda f: (f / "config.json").write_text("[" * 200_000), "cannot read"),
        (lambda f: rename_group(f, "hue"), "columns for 'rot360', which is not among its groups"),
        (lambda f: damage(f, actions=["hue"]), "whole duet model"),
        (lambda f: damage(f, image_size=None), "whole duet model"),
        (lambda f: damage(f, num_classes=7), "whole duet model"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04cos\nsystem\n"), "cannot read"),
        (lambda f: (f / "model.safetensors").unlink(), "cannot read"),
        (lambda f: save_file({"x": torch.zeros(1)}, f / "model.safetensors"), "whole duet model"),
    ],
)
def test_a_damaged_folder_is_one_sentence(folder, harm, message):
    harm(folder)
    with pytest.raises(ValueError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_an_unfinished_run_says_how_to_finish(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(ValueError, match="--resume"):
        load(tmp_path)


def test_tied_weights_are_saved(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
            self.second.weight = self.first.weight

        def forward(self, images):
            return self.second(self.first(images.flatten(1)))

    experiment = Experiment(channels=1)
    encoder = Encoder(wrap(Tied(), channels=1, width=64), build_layout(experiment, 64), experiment, (8, 8))
    save(encoder, tmp_path / "m")
    images = torch.rand(2, 1, 8, 8)
    again = load(tmp_path / "m", backbone=wrap(Tied(), channels=1, width=64))
    assert torch.equal(again.features(images), encoder.features(images))


def test_a_backbone_of_your_own_is_given_at_loading(tmp_path):
    def body():
        return wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32)), channels=1, width=32)

    experiment = Experiment(channels=1)
    encoder = Encoder(body(), build_layout(experiment, 32), experiment, (8, 8))
    save(encoder, tmp_path / "m")
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(load(tmp_path / "m", backbone=body()).features(images), encoder.features(images))
