"""A model on disk: it comes back equal, and a stranger's folder cannot harm."""

import hashlib
import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import duet
from duet.error import DuetError
from duet.model import Encoder, load, training_data
from duet.networks import OnlineHead, build_backbone, wrap
from duet.representation import Axis, FittedAction, Table, VonMises
from tests.conftest import confident

ONE = torch.ones(1)
TABLE = Table(16, Axis("rot360", 8, VonMises()))


def model(**changes):
    torch.manual_seed(0)
    backbone = build_backbone("tiny", channels=1)
    backbone.normalise_by(torch.tensor([0.1]), torch.tensor([0.3]))
    z, by = torch.randn(500, 128), torch.rand(500)
    action = FittedAction.fit(z, z.roll(1, 1), by, cyclic=True, order=1)
    settings = {
        "actions": {"rot360": action},
        "image_size": (28, 28),
        "classes": "0123456789",
        "head": OnlineHead(128, 10),
        "provenance": {"method": "duet", "lambda": 10.0, "data": {"source": "digits"}},
        **changes,
    }
    return Encoder(backbone, TABLE, ["rot360"], **settings)


@pytest.fixture
def folder(tmp_path):
    return model().save(tmp_path / "model")


def test_it_comes_back_equal(folder):
    before, after = model(), load(folder)
    images = torch.rand(5, 1, 28, 28)
    assert torch.equal(before.features(images), after.features(images))
    for name in ("layout", "reference", "classes", "provenance", "description", "digest"):
        assert getattr(after, name) == getattr(before, name), name
    assert [group.describe() for group in after.groups.values()] == [duet.GROUPS["rot360"].describe()]
    assert after.image_size == (28, 28)
    z, by = after.features(images), torch.full((5,), 0.2)
    assert torch.equal(before.actions["rot360"]["fitted"].act(z, by), after.actions["rot360"]["fitted"].act(z, by))
    assert torch.equal(before.head.linear.weight, after.head.linear.weight)
    assert not after.training


def test_the_same_model_gives_the_same_bytes(folder, tmp_path):
    model().save(tmp_path / "again")
    names = ["README.md", "config.json", "model.safetensors"]
    assert sorted(p.name for p in folder.iterdir()) == names
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_saving_again_replaces_the_model_and_leaves_no_trace_of_the_work(folder):
    (folder / "notes").write_text("mine")
    model(provenance={"lambda": 3.0}, head=None).save(folder)
    again = load(folder)
    assert again.provenance == {"lambda": 3.0}
    assert again.head is None
    assert (folder / "notes").read_text() == "mine"
    assert sorted(p.name for p in folder.iterdir()) == ["README.md", "config.json", "model.safetensors", "notes"]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_what_makes_it_a_model_is_written_last(tmp_path, monkeypatch):
    real = os.replace

    def stop(partial, path):
        if path.name == "config.json":
            raise KeyboardInterrupt
        real(partial, path)

    monkeypatch.setattr("duet.file.os.replace", stop)
    with pytest.raises(KeyboardInterrupt):
        model().save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["README.md", "model.safetensors"]
    with pytest.raises(ValueError, match="no model in"):
        load(tmp_path / "model")


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


def test_its_confidence_comes_back_equal_and_another_has_none(tmp_path, folder):
    before = confident(model(), strangeness=0.3)
    after = load(before.save(tmp_path / "calibrated"))
    images = torch.rand(5, 1, 28, 28)
    ours, theirs = (encoder.recover(encoder.features(images)) for encoder in (before, after))
    for name in ("probability", "known", "sure"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert after.digest == before.digest
    assert "recover(rep).sure" in (tmp_path / "calibrated" / "README.md").read_text()
    assert load(folder).confidence is None


def test_a_model_of_before_there_was_confidence_loads(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("confidence") is None
    (folder / "config.json").write_text(json.dumps(config))
    assert load(folder).confidence is None


KNOTS = {"within": 0.125, "doubts": [0.1, 0.2], "probabilities": [0.9, 0.1]}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ([], "whole duet model"),
        ("rot360", "whole duet model"),
        ({"rot360": {}}, "whole duet model"),
        ({"rot360": None}, "whole duet model"),
        ({"rot361": KNOTS}, "of 'rot361' does not fit"),
        ({"a.b": KNOTS}, "whole duet model"),
        ({"rot360": {**KNOTS, "doubts": "ab"}}, "whole duet model"),
        ({"rot360": {**KNOTS, "doubts": [0.1]}}, "as many doubts as probabilities"),
        ({"rot360": {**KNOTS, "within": -1}}, "from 0 to 1"),
        ({"rot360": {**KNOTS, "probabilities": [0.1, 0.9]}}, "may not rise in probability"),
    ],
)
def test_a_strangers_confidence_is_refused_in_one_line(tmp_path, plain, message):
    folder = confident(model()).save(tmp_path / "model")
    damage(folder, confidence=plain)
    with pytest.raises(DuetError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_confidence_without_its_tensors_is_refused(folder):
    damage(folder, confidence={"rot360": KNOTS})
    with pytest.raises(DuetError, match="whole duet model"):
        load(folder)


def damage(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def group(name, **settings):
    return [{"name": name, "settings": settings, "plugin": None}]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "no model in"),
        (lambda f: (f / "config.json").write_text("{"), "cannot read"),
        (lambda f: (f / "config.json").write_text("[]"), "not the configuration"),
        (lambda f: damage(f, format=99), "format 99"),
        (lambda f: damage(f, format=1), "format 1; this version reads 2"),
        (lambda f: damage(f, backbone={"name": "os.system"}), "no encoder"),
        (lambda f: damage(f, backbone={"name": "os:system"}), "give --plugin os "),
        (lambda f: damage(f, backbone={"name": "tiny", "channels": "x"}), "odd 'channels'"),
        (lambda f: damage(f, backbone={"name": "tiny", "channels": 1, "own": 1}), "odd 'own'"),
        (lambda f: damage(f, backbone={"name": "timm:a", "checkpoint_path": "x.pth"}), "odd 'checkpoint_path'"),
        (lambda f: damage(f, backbone={"name": "timm:hf-hub:someone/else", "channels": 1}), "plain names"),
        (lambda f: damage(f, backbone="tiny"), "does not say which backbone"),
        (lambda f: damage(f, backbone=None), "give load\\(..., backbone=it\\)"),
        (lambda f: damage(f, reference="both"), "'absolute' or 'relative'"),
        (lambda f: damage(f, groups=None), "whole duet model"),
        (lambda f: damage(f, groups=group("rot361")), "no group 'rot361'"),
        (lambda f: damage(f, groups=group("rot360", corners="no")), "corners must be"),
        (lambda f: damage(f, layout={"kind": "round"}), "no layout"),
        (lambda f: damage(f, layout={}), "layout"),
        (lambda f: damage(f, layout=None), "whole duet model"),
        (lambda f: (f / "config.json").write_text("[" * 200_000), "cannot read"),
        (lambda f: damage(f, groups=group("hue")), "columns for 'rot360', which is not among its groups"),
        (lambda f: damage(f, actions=["hue"]), "whole duet model"),
        (lambda f: damage(f, actions=[["rot360", "pickled"]]), "unknown kind 'pickled'"),
        (lambda f: damage(f, image_size=[28]), "whole duet model"),
        (lambda f: damage(f, num_classes=7), "whole duet model"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04cos\nsystem\n"), "cannot read"),
        (lambda f: (f / "model.safetensors").unlink(), "cannot read"),
        (lambda f: save_file({"x": torch.zeros(1)}, f / "model.safetensors"), "of another model"),
    ],
)
def test_a_damaged_folder_is_one_sentence(folder, harm, message):
    harm(folder)
    with pytest.raises(ValueError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("block", [1, 5000, 2**26])
def test_a_block_of_the_file_is_read_at_a_time(folder, monkeypatch, block):
    sizes = []

    class Counted:
        def __init__(self, *arguments, **options):
            self.file = safe_open(*arguments, **options)
            sizes.append(0)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def get_tensor(self, name):
            found = self.file.__enter__().get_tensor(name)
            sizes[-1] += found.nbytes
            return found

    monkeypatch.setattr("duet.model.artifact.BLOCK", block)
    monkeypatch.setattr("duet.model.artifact.safe_open", Counted)
    assert load(folder).digest == model().digest
    tensors = [value.nbytes for name, value in load_file(folder / "model.safetensors").items() if "backbone." in name]
    assert sum(sizes) == sum(tensors)
    assert max(sizes) <= max(block, *tensors)
    assert (len(sizes) == 1) == (block >= sum(tensors))


@pytest.mark.parametrize("block", [1, 2**26])
@pytest.mark.parametrize(
    "change", [lambda t: t.pop("backbone.norm.weight"), lambda t: t.update({"backbone.a\nb": ONE})]
)
def test_weights_that_are_not_those_of_the_network_are_refused(folder, monkeypatch, block, change):
    monkeypatch.setattr("duet.model.artifact.BLOCK", block)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    damage(folder, weights_sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    with pytest.raises(DuetError, match=r"whole duet model: .* is in its network or in its weights, and not in both"):
        load(folder)


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

    encoder = Encoder(wrap(Tied(), channels=1, width=64), Table(8, TABLE.axes[0]), ["rot360"], image_size=8)
    encoder.save(tmp_path / "m")
    images = torch.rand(2, 1, 8, 8)
    again = load(tmp_path / "m", backbone=wrap(Tied(), channels=1, width=64))
    assert torch.equal(again.features(images), encoder.features(images))


def test_weights_under_the_config_of_another_model_are_refused(tmp_path):
    """As a process that was killed while it saved over a model would leave it."""
    first, second = (make_model(seed).save(tmp_path / str(seed)) for seed in (0, 1))
    (second / "model.safetensors").write_bytes((first / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match="of another model than the config"):
        load(second)


def test_decoders_go_with_the_weights_they_decode(tmp_path):
    folder = make_model(0).save(tmp_path / "m")
    (folder / "decoders").mkdir()
    (folder / "decoders" / "rot360.safetensors").write_bytes(b"of these weights")
    make_model(0).save(folder)
    assert (folder / "decoders" / "rot360.safetensors").exists()
    make_model(1).save(folder)
    assert not (folder / "decoders").exists()


def make_model(seed):
    torch.manual_seed(seed)
    body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64))
    return Encoder(wrap(body, channels=1, width=64), Table(8, TABLE.axes[0]), ["rot360"], image_size=8)


@pytest.mark.parametrize(
    "data",
    [
        {"source": "digits", "image_size": "abc"},
        {"source": "digits", "channels": [1]},
        {"source": "digits", "subset": 1.5},
        {"source": 7},
        {"source": "digits", "seed": True},
        {"source": "digits", "split": ["train"]},
    ],
)
def test_a_strangers_provenance_is_refused_in_one_line(data):
    encoder = make_model(0)
    encoder.provenance["data"] = data
    with pytest.raises(DuetError, match="odd"):
        training_data(encoder)
    encoder.provenance["data"] = {"source": "digits", "channels": 1, "split": "all", "workers": 10**6}
    assert training_data(encoder) == {"source": "digits", "channels": 1, "split": "all"}


class Body(torch.nn.Module):
    """A plain module of somebody's: (B,1,H,W) -> (B,16)."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, images):
        return self.linear(torch.nn.functional.adaptive_avg_pool2d(images, 4).flatten(1))


@pytest.mark.parametrize("dim", [16, 32])
def test_a_plain_module_is_wrapped_when_a_model_is_loaded_with_it(tmp_path, dim):
    backbone = wrap(Body(), channels=1, width=16, dim=dim)
    backbone.normalise_by(torch.tensor([0.2]), torch.tensor([0.5]))
    layout = Table(dim // 8, Axis("rot360", 8, VonMises(0.2)))
    encoder = Encoder(backbone, layout, ["rot360"], image_size=28)
    folder = encoder.save(tmp_path / "model")
    images = torch.rand(3, 1, 28, 28)
    again = load(folder, backbone=Body())
    assert torch.equal(again.features(images), encoder.features(images))
    assert torch.equal(
        load(folder, backbone=wrap(Body(), channels=1, dim=dim)).features(images), again.features(images)
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda folder: load(Body()), "load takes a run, .* by name, not a tests.Body: a module goes to backbone="),
        (lambda folder: load(torch.zeros(2)), "not a torch.Tensor"),
        (lambda folder: load(None), "not a NoneType"),
        (lambda folder: load(folder, backbone="resnet18"), "backbone= takes the module .* not a str"),
        (lambda folder: load(folder, backbone=torch.nn.Flatten()), "does not hold a whole duet model"),
    ],
)
def test_what_is_no_name_is_one_clear_line(tmp_path, call, words):
    backbone = wrap(Body(), channels=1, width=16)
    folder = Encoder(backbone, Table(2, Axis("rot360", 8, VonMises(0.2))), ["rot360"]).save(tmp_path / "model")
    with pytest.raises(DuetError, match=words) as raised:
        call(folder)
    assert "\n" not in str(raised.value)
