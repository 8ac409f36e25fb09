"""bfloat16: chosen by the device's flags, kept by a run, near float32 in loss and gradient, the same bytes resumed."""

import json
import logging

import pytest
import torch

from duet import Experiment
from duet.device import _processor_flags, has_native_bf16
from duet.training import resume, train
from duet.training.experiment import build_method, build_stack
from duet.training.step import loss_of_batch

from .test_run import contents, cut_at


@pytest.fixture
def native(monkeypatch):
    """Decide whether the device has bfloat16."""
    return lambda there: monkeypatch.setattr("duet.training.run.has_native_bf16", lambda device: there)


@pytest.mark.parametrize(("there", "precision"), [(True, "bf16"), (False, "32")])
def test_auto_is_bf16_where_the_device_has_it_and_the_run_says_so(tmp_path, tiny, native, caplog, there, precision):
    native(there)
    with caplog.at_level(logging.INFO):
        run = train(tiny(epochs=1, subset=64, precision="auto"), tmp_path / "run", quiet=True)
    word = "native" if there else "no native"
    assert f"precision: {precision} ({word} bf16 on cpu)" in caplog.messages
    assert Experiment.from_yaml(run / "config.yaml").precision == precision
    assert json.loads((run / "machine.json").read_text())["precision"] == precision
    assert json.loads((run / "model" / "config.json").read_text())["provenance"]["recipe"]["precision"] == precision


def test_a_run_keeps_its_precision_when_it_is_resumed_on_another_device(tmp_path, tiny, native, monkeypatch):
    native(True)
    experiment = tiny(precision="auto")
    whole = train(experiment, tmp_path / "whole", quiet=True, checkpoint_every=3)
    run = tmp_path / "run"
    cut_at(monkeypatch, 7, lambda: train(experiment, run, quiet=True, checkpoint_every=3))
    native(False)
    train(experiment, run, quiet=True, checkpoint_every=3)  # by its own call, as a study does
    assert contents(run) == contents(whole)


def test_a_bf16_run_cut_short_ends_with_the_same_files(tmp_path, tiny, monkeypatch):
    experiment = tiny(precision="bf16", optimizer="adamw", decay_norms=False, view_size=["14@0.5", "28"])
    whole = train(experiment, tmp_path / "whole", quiet=True, checkpoint_every=4)
    cut_at(monkeypatch, 6, lambda: train(experiment, tmp_path / "cut", quiet=True, checkpoint_every=4))
    assert resume(tmp_path / "cut", quiet=True, checkpoint_every=4)
    assert contents(tmp_path / "cut") == contents(whole)


@pytest.mark.parametrize("method", ["simclr", "duet", "essl"])
def test_loss_and_gradient_of_bf16_are_near_those_of_float32(method):
    """The loss to 1 %, the gradient's direction to a cosine of 0.95, its length to 5 %."""
    e = Experiment.preset("demo", method=method, group="rot4", channels=3)
    images = torch.rand(128, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    found = {}
    for mixed in (False, True):
        torch.manual_seed(0)
        made = build_method(e, image_size=(28, 28))
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss, terms = loss_of_batch(made, build_stack(e), images, torch.Generator().manual_seed(1))
        loss.backward()
        assert all(term.dtype == torch.float32 for term in terms.values())
        gradient = torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])
        statistics = torch.cat([b.flatten().float() for n, b in made.named_buffers() if "running" in n])
        found[mixed] = (loss.detach(), gradient, statistics)
    (exact, gradient, statistics), (loss, other, others) = found[False], found[True]
    assert float(loss) == pytest.approx(float(exact), rel=0.01)
    assert float(torch.cosine_similarity(gradient, other, dim=0)) > 0.95
    assert float(other.norm() / gradient.norm()) == pytest.approx(1, abs=0.05)
    torch.testing.assert_close(others, statistics, rtol=0.02, atol=0.01)
    assert others.dtype == torch.float32
    assert not torch.equal(other, gradient)


def test_the_features_under_autocast_are_single(tiny):
    made = build_method(tiny(channels=3), image_size=(28, 28))
    with torch.autocast("cpu", torch.bfloat16):
        assert made.backbone(torch.rand(4, 3, 28, 28)).dtype == torch.float32
    assert made.double().backbone(torch.rand(4, 3, 28, 28).double()).dtype == torch.float64


def test_the_flags_of_the_processor_decide(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert has_native_bf16(torch.device("cpu"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True}, raising=False)
    assert not has_native_bf16(torch.device("cpu"))
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert has_native_bf16(torch.device("cpu")) == any(f in _processor_flags() for f in ("avx512_bf16", "amx_bf16"))
    assert not has_native_bf16(torch.device("mps"))
