"""duet export: one graph that runs without duet and agrees with it."""

import json
import os

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import duet
from duet.cli import main
from duet.installation import install_command
from duet.model import OrbitViews, spectrum_of
from duet.model import export as exporting
from duet.model.export import BATCHES, TOLERANCE, export, input_names, output_names
from duet.representation import act
from tests.conftest import confident, random_encoder

MODELS = {
    "narrow Gaussian": {"group": ["scale"], "sigma": 0.03},
    "several": {"group": ["rot360", "scale"], "layout": "joint", "bins": 4},
    "relative": {"reference": "relative"},
    "flat": {"method": "simclr"},
}


@pytest.mark.parametrize("model", MODELS)
def test_onnx_agrees_with_torch_for_any_batch(model, tmp_path):
    encoder = random_encoder(**MODELS[model])
    assert export(encoder, tmp_path / "model.onnx", "onnx") < TOLERANCE
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [entry.name for entry in session.get_inputs()] == input_names(encoder)
    assert [entry.name for entry in session.get_outputs()] == output_names(encoder)
    assert {entry.shape[0] for entry in (*session.get_inputs(), *session.get_outputs())} == {"batch"}
    assert session.get_inputs()[0].shape == ["batch", 1, 28, 28]
    assert session.get_outputs()[0].shape == ["batch", 128]
    images, g = torch.rand(11, 1, 28, 28), torch.rand(11)
    given = {"images": images.numpy(), "g": g.numpy(), "by": g.numpy()}
    out = dict(zip(output_names(encoder), session.run(None, {n: given[n] for n in input_names(encoder)}), strict=True))
    rep = encoder.embed(images)
    assert np.allclose(out["features"], rep.flat, atol=TOLERANCE)
    for axis in encoder.layout.axes:
        estimate = rep.recover(axis)
        assert np.allclose(out[f"marginal_{axis.name}"], rep.marginal(axis), atol=TOLERANCE)
        assert np.allclose(out[f"g_{axis.name}"], estimate.g, atol=TOLERANCE)
        assert np.allclose(out[f"spread_{axis.name}"], estimate.spread, atol=TOLERANCE)
    if rep.relative:
        moved = act(rep.flat, rep.layout, "rot360", (torch.from_numpy(out["g_rot360"]) + g).remainder(1))
        assert np.allclose(out["shifted"], moved, atol=TOLERANCE, rtol=TOLERANCE)
        assert np.allclose(out["shifted"], rep.shift(by=g).flat, atol=1e-2)
    elif encoder.layout.axes:
        moved = rep.act(encoder.layout.axes[0], to=g).flat
        assert np.allclose(out["acted"], moved, atol=TOLERANCE, rtol=TOLERANCE)


def turning_views(group, dim, images=200, planes=8):
    """Views whose features hold planes that turn once with the group, mixed, and a little noise."""
    g = group.sample(images * 4, torch.Generator().manual_seed(0)).reshape(images, 4)
    own = torch.randn(images, 1, planes, dtype=torch.complex64)
    angle = 2 * torch.pi * g.unsqueeze(2)
    turned = torch.view_as_real(own * torch.complex(angle.cos(), angle.sin())).flatten(2)
    return OrbitViews(turned @ torch.randn(2 * planes, dim) + 0.1 * torch.randn(images, 4, dim), g)


@pytest.mark.parametrize("settings", [{"reference": "relative"}, {"group": ["rot4"]}])
def test_the_spectral_action_comes_along(settings, tmp_path):
    encoder = random_encoder(**settings)
    axis = encoder.layout.axes[0]
    group = encoder.groups[axis.name]
    encoder.add_action(group.name, spectrum_of(turning_views(group, encoder.layout.dim), group).float())
    export(encoder, tmp_path / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    images, g = torch.rand(9, 1, 28, 28), torch.rand(9)
    given = dict(zip(input_names(encoder), (images.numpy(), g.numpy()), strict=True))
    out = dict(zip(output_names(encoder), session.run(None, given), strict=True))
    by = g if encoder.relative else g - torch.from_numpy(out[f"g_{axis.name}"])
    expected = encoder.embed(images).action("spectral", axis).act(torch.from_numpy(out["features"]), by)
    assert np.allclose(out["turned"], expected, atol=TOLERANCE)
    assert not np.allclose(out["turned"], out["features"], atol=1e-2)


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_a_calibrated_model_exports_how_sure_it_is(kind, tmp_path):
    encoder = confident(random_encoder(group=["rot360", "scale"], layout="joint", bins=4), strangeness=0.2)
    names = output_names(encoder)
    assert names[2:6] == ["marginal_rot360", "g_rot360", "spread_rot360", "probability_rot360"]
    assert names[-3:] == ["probability_scale", "strangeness", "acted"]
    assert export(encoder, tmp_path / f"model.{kind}", kind) < TOLERANCE
    images, g = torch.rand(11, 1, 28, 28), torch.rand(11)
    if kind == "onnx":
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
        found = session.run(None, {"images": images.numpy(), "g": g.numpy()})
        told = json.loads(onnx.load(tmp_path / "model.onnx").metadata_props[0].value)
        assert told["sure"] == {"probability_from": 0.9, "strangeness_up_to": 1.0}
    else:
        with torch.no_grad():
            found = torch.export.load(tmp_path / "model.pt2").module()(images, g)
    out = dict(zip(names, found, strict=True))
    z = encoder.features(images)
    assert np.allclose(out["strangeness"], encoder.confidence.strangeness(z), rtol=1e-3)
    for axis in encoder.layout.axes:
        reading = encoder.recover(z, axis)
        assert np.allclose(out[f"probability_{axis.name}"], reading.probability, atol=1e-3)


def test_pt2_runs_without_duet(tmp_path):
    encoder = random_encoder()
    encoder.save(tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), "-o", str(tmp_path / "model.pt2")]) == 0
    program = torch.export.load(tmp_path / "model.pt2").module()
    images, g = torch.rand(5, 1, 28, 28), torch.rand(5)
    out = dict(zip(output_names(encoder), program(images, g), strict=True))
    rep = duet.load(tmp_path / "model").embed(images)
    assert torch.allclose(out["features"], rep.flat, atol=TOLERANCE)
    assert torch.allclose(out["acted"], rep.act(to=g).flat, atol=TOLERANCE)


def test_the_command_reports_the_difference_and_the_file_says_what_its_numbers_mean(model_folder, tmp_path, capsys):
    out = tmp_path / "out" / "graph"
    assert main(["export", str(model_folder()), "-o", str(out), "--format", "onnx"]) == 0
    assert "from torch" in capsys.readouterr().out
    assert os.listdir(out.parent) == ["graph"]
    described = {entry.key: entry.value for entry in onnx.load(out).metadata_props}
    told = json.loads(described["duet"])
    assert told["outputs"] == ["features", "content", "marginal_rot360", "g_rot360", "spread_rot360", "acted"]
    assert told["axes"][0]["unit"] == "degrees"
    assert told["axes"][0]["parameter_at_g_0_and_1"] == [-180, 180]


def test_a_graph_that_disagrees_is_not_left_behind(model_folder, tmp_path, monkeypatch, capsys):
    real = exporting.outputs
    monkeypatch.setattr(exporting.Graph, "forward", lambda self, images, g: real(_wrong(self, images), g))
    out = tmp_path / "out" / "model.pt2"
    assert main(["export", str(model_folder()), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert "the exported features differs from torch by" in error
    assert error.count("\n") == 1
    assert os.listdir(out.parent) == []


def _wrong(graph, images):
    return duet.Representation(graph.encoder(images) + 2e-3, graph.layout)


def test_parity_is_checked_on_several_batch_sizes():
    assert 1 in BATCHES
    assert len(set(BATCHES)) >= 3


def test_a_missing_extra_is_one_line(model_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None if name == "onnxruntime" else object())
    assert main(["export", str(model_folder()), "-o", str(tmp_path / "model.onnx")]) == 2
    error = capsys.readouterr().err
    assert error == f"duet: export to ONNX needs onnxruntime: {install_command('export')}\n"


def test_an_unknown_format_is_one_line(tmp_path, capsys):
    assert main(["export", "model", "-o", str(tmp_path / "model.bin")]) == 2
    assert "should end in .onnx or .pt2" in capsys.readouterr().err
    assert main(["export", "model", "-o", "x", "--format", "tflite"]) == 2


def test_a_model_that_cannot_be_traced_is_one_line(encoder, tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, images):
            return images.flatten(1)[:, :128] * float(images.sum())

    encoder.backbone.body = Odd()
    with pytest.raises(ValueError, match="cannot be exported to pt2") as error:
        export(encoder, tmp_path / "model.pt2", "pt2")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_the_callers_encoder_stays_as_and_where_it_is(kind, tmp_path):
    encoder = random_encoder().double().train()
    encoder.backbone.body.requires_grad_(False)
    before = {
        name: (id(value), value.clone()) for name, value in [*encoder.named_parameters(), *encoder.named_buffers()]
    }
    training = [part.training for part in encoder.modules()]
    wanted = [value.requires_grad for value in encoder.parameters()]
    export(encoder, tmp_path / f"model.{kind}", kind)
    after = dict([*encoder.named_parameters(), *encoder.named_buffers()])
    assert {name: id(value) for name, value in after.items()} == {name: own for name, (own, _) in before.items()}
    assert {value.device.type for value in after.values()} == {"cpu"}
    for name, (_, value) in before.items():
        assert after[name].dtype == value.dtype
        assert torch.equal(after[name], value), name
    assert encoder.backbone.norm.weight.dtype == torch.float64
    assert [part.training for part in encoder.modules()] == training
    assert [value.requires_grad for value in encoder.parameters()] == wanted
