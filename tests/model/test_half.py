"""Half precision on disk: half the size, features within some thousandths, nothing lost that float16 cannot hold."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import duet
from duet.cli import main
from duet.groups import GROUPS
from duet.model import spectrum_of
from duet.model.half import FLOOR, TOLERANCE, in_half, in_single, survives
from tests.conftest import confident, random_encoder
from tests.model.test_export import turning_views


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model with everything, and its folders in single and in half precision."""
    place = tmp_path_factory.mktemp("half")
    encoder = confident(random_encoder(12), 0.3)
    encoder.turns = 4
    confident(encoder, 0.2)
    group = GROUPS["rot360"]
    encoder.add_action("rot360", spectrum_of(turning_views(group, encoder.layout.dim), group).float())
    return encoder, encoder.save(place / "single"), encoder.save(place / "half", half=True)


def test_it_takes_half_the_place_and_says_so(saved):
    _, single, half = saved
    assert [json.loads((f / "config.json").read_text())["precision"] for f in (single, half)] == ["float32", "float16"]
    sizes = [
        {
            key: value.numel() * min(4, value.itemsize)
            for key, value in load_file(folder / "model.safetensors").items()
            if value.ndim > 1
        }
        for folder in (single, half)
    ]
    for key, size in sizes[0].items():
        assert sizes[1][key] == (size if "spectral" in key else size // 2), key


def test_features_and_readings_stay(saved):
    encoder, _, folder = saved
    small, images = duet.load(folder), torch.rand(20, 1, 12, 12)
    assert {value.dtype for value in small.state_dict().values() if value.is_floating_point()} == {torch.float32}
    z, found = encoder.features(images), small.features(images)
    assert float((found - z).norm() / z.norm()) < 2e-3
    assert not torch.equal(found, z)
    assert sorted(small.confidences) == [1, 4]
    for turns, own in small.confidences.items():
        assert torch.allclose(own.strangeness(z), encoder.confidences[turns].strangeness(z), rtol=2e-3)
    by = torch.rand(20)
    for kind in ("fitted", "spectral"):
        ours, theirs = (e.actions["rot360"][kind].act(z, by) for e in (encoder, small))
        assert torch.allclose(ours, theirs, atol=2e-3 * float(z.abs().max())), kind
    spectral = small.actions["rot360"]["spectral"]
    assert torch.allclose(spectral.act(spectral.act(z, by), -by), z, atol=1e-5)


def test_the_same_file_is_the_same_model_and_is_written_again_as_it_was(saved, tmp_path):
    _, _, folder = saved
    small = duet.load(folder)
    assert small.digest == duet.load(folder).digest
    again = small.save(tmp_path / "again", half=True)
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert duet.load(again).digest == small.digest


@settings(max_examples=60, deadline=None)
@given(st.integers(-40, 20), st.integers(0, 40), st.integers(0, 99))
def test_every_row_and_column_stays_within_the_tolerance(exponent, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.logspace(0, -spread / 4, 6, base=2).unsqueeze(1)
    tensor = torch.randn(6, 5, generator=generator) * rows * 2.0**exponent
    read = in_single(in_half({"own": tensor}))["own"]
    assert read.dtype == torch.float32
    for dim in (0, 1):
        length, lost = tensor.double().norm(dim=dim), (read.double() - tensor.double()).norm(dim=dim)
        assert bool((lost <= TOLERANCE * length.clamp(min=FLOOR * float(length.max()))).all())


def test_what_float16_would_lose_stays_in_single_precision():
    kept = {
        "too large": torch.full((2, 2), 1e5),
        "too small": torch.full((2, 2), 1e-6),
        "a small column": torch.tensor([[1.0, 1e-6], [1.0, 1e-6]]) * torch.tensor([1e-2, 1.0]),
        "a vector": torch.rand(8) * 1e-3,
        "named": torch.rand(4, 4),
        "wide": torch.rand(4).double(),
    }
    stored = in_half(kept, exact=["named"])
    assert {value.dtype for value in stored.values()} == {torch.float32}
    assert torch.equal(stored["too small"], kept["too small"])
    assert not survives(torch.tensor([[torch.nan, 1.0]]))
    counts = torch.arange(6).reshape(2, 3)
    assert in_half({"counts": counts})["counts"] is counts
    assert in_half({"own": torch.rand(3, 3)})["own"].dtype == torch.float16
    assert in_half({"own": torch.zeros(3, 3)})["own"].dtype == torch.float16


def test_the_command_writes_a_small_model(saved, tmp_path, capsys):
    _, single, half = saved
    assert main(["export", str(single), "-o", str(tmp_path / "small"), "--format", "model", "--half"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'small'}: {_size(tmp_path / 'small') / 1e6:.1f} MB\n"
    weights = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path / "small", half)]
    assert weights[0] == weights[1]
    assert main(["export", str(single), "-o", str(tmp_path / "plain"), "--format", "model", "--turns", "1"]) == 0
    assert duet.load(tmp_path / "plain").turns == 1
    capsys.readouterr()
    assert main(["export", str(single), "-o", str(tmp_path / "model.onnx"), "--half"]) == 2
    assert capsys.readouterr().err == "duet: --half is for a model's folder: give --format model\n"


def _size(folder):
    return sum(path.stat().st_size for path in folder.iterdir())
