"""A stranger's model asks for no more than its files hold, and holds numbers."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from duet.error import DuetError
from duet.model import load
from duet.model.allowance import SPARE, Allowance
from duet.model.artifact import _sha256, load_decoder, save_decoder
from duet.networks.decoder import small_decoder
from tests.conftest import confident, random_encoder

from .test_trunk import encoder as on_trunk

MANY = 10_000_000


def test_more_than_there_is_to_load_is_not_made(tmp_path):
    with Allowance([torch.zeros(10)], tmp_path):
        assert torch.nn.Linear(4, 4).weight.shape == (4, 4)
        for make in (lambda: torch.nn.Linear(MANY, MANY), lambda: torch.ones(SPARE + 21), lambda: torch.zeros(10**12)):
            with pytest.raises(DuetError, match="asks for more weights than it has"):
                make()


def test_small_parts_add_up(tmp_path):
    with Allowance([torch.zeros(10)], tmp_path):
        kept = [torch.empty(SPARE // 4) for _ in range(4)]
        assert len(kept) == 4
        with pytest.raises(DuetError, match="more weights"):
            torch.empty(SPARE // 4)


def change(folder, place, value):
    """Write another value into config.json, at a path of keys."""
    config = json.loads((folder / "config.json").read_text())
    inner = config
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (folder / "config.json").write_text(json.dumps(config))


CHANGES = [
    (("backbone", "dim"), MANY),
    (("backbone", "dim"), 10**12),
    (("backbone", "dim"), 10**40),
    (("backbone", "channels"), MANY),
    (("backbone", "name"), "resnet50"),
    (("num_classes",), MANY),
    (("num_classes",), 10**30),
    (("layout", "content"), MANY),
    (("layout", "axes", 0, "bins"), 10**9),
    (("layout", "axes", 0, "bins"), 10**400),
    (("layout",), {"kind": "flat", "dim": MANY}),
    (("image_size",), [10**6, 10**6]),
    (("image_size",), [28, 10**400]),
    (("image_size",), [0, 28]),
    (("turns",), 10**9),
    (("classes",), 7),
]
ON_TRUNK = [
    (("backbone", "trunk", "width"), MANY),
    (("backbone", "trunk", "width"), 1_000_000),
    (("backbone", "dim"), MANY),
    (("image_size",), [10**5, 10**5]),
    (("image_size",), [4000, 28]),
]


@pytest.mark.parametrize(("place", "value"), CHANGES)
def test_absurd_sizes_are_refused_in_one_short_line_and_no_memory(tmp_path, place, value, refused):
    folder = random_encoder().save(tmp_path / "model")
    change(folder, place, value)
    refused(lambda: load(folder))


@pytest.mark.parametrize(("place", "value"), ON_TRUNK)
def test_so_are_those_of_a_neck(tmp_path, place, value, refused):
    folder = on_trunk().save(tmp_path / "model")
    change(folder, place, value)
    refused(lambda: load(folder))


@pytest.fixture
def refused(monkeypatch):
    """One short line, and never a tensor of many numbers."""

    def check(work):
        made = []
        with pytest.raises(DuetError) as caught, Watched(made):
            work()
        assert len(str(caught.value)) < 400
        assert "\n" not in str(caught.value)
        assert max(made, default=0) <= 3 * 10**6, "more than the network itself was made"

    return check


class Watched(torch.overrides.TorchFunctionMode):
    """Notes how many numbers every tensor has that was truly made."""

    def __init__(self, made):
        super().__init__()
        self.made = made

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "meta":
            self.made.append(result.numel())
        return result


DECODER = [("stages", 10**9), ("stages", 40), ("blocks", 10**9), ("width", 10**8), ("dim", MANY), ("patch", 10**6)]


@pytest.mark.parametrize(("key", "value"), [*DECODER, ("size", [10**8, 10**8]), ("heads", "x"), ("size", None)])
def test_an_absurd_decoder_is_refused(tmp_path, monkeypatch, key, value, refused):
    folder = random_encoder().save(tmp_path / "model")
    decoder = small_decoder(128, 1, (28, 28))
    plain = decoder.to_dict()
    monkeypatch.setattr(decoder, "to_dict", lambda: {**plain, key: value})
    save_decoder(decoder, folder, "rot360")
    refused(lambda: load_decoder(folder, "rot360"))


def poison(folder, name, value):
    """Write another value into a tensor, as somebody who knows the format would."""
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    tensors[name] = tensors[name].clone()
    tensors[name].view(-1)[0] = value
    save_file(tensors, weights)
    change(folder, ("weights_sha256",), _sha256(weights))


NAMES = [
    *("backbone.norm.weight", "backbone.mean", "backbone.body.stem.0.weight", "backbone.body.stem.1.running_mean"),
    *("action.rot360.fitted.weight", "confidence.whitening"),
]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_no_numbers_are_refused(tmp_path, name, value, half):
    folder = confident(random_encoder()).save(tmp_path / "model", half=half)
    poison(folder, name, value)
    with pytest.raises(DuetError, match=r"no numbers|not finite") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["backbone.body.stem.1.running_var", "backbone.std"])
def test_what_is_divided_by_is_above_0(tmp_path, name):
    folder = random_encoder().save(tmp_path / "model")
    poison(folder, name, -1.0)
    with pytest.raises(DuetError, match="not above 0"):
        load(folder)


def test_a_decoder_that_holds_no_numbers_is_refused(tmp_path):
    folder = random_encoder().save(tmp_path / "model")
    decoder = small_decoder(128, 1, (28, 28))
    torch.nn.init.constant_(decoder.last.bias, float("nan"))
    save_decoder(decoder, folder, "rot360")
    with pytest.raises(DuetError, match="no numbers"):
        load_decoder(folder, "rot360")


class Hidden(torch.nn.Module):
    """A network that masks with infinities, as attention does."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.register_buffer("mask", torch.full((3,), -torch.inf))

    def forward(self, images):
        return self.linear(images.flatten(1))


def test_a_mask_of_infinities_is_no_weight(tmp_path):
    from duet.model import Encoder
    from duet.networks import wrap
    from duet.representation import Flat

    made = Encoder(wrap(Hidden(), channels=1, width=64), Flat(64), [], image_size=8)
    assert load(made.save(tmp_path), backbone=wrap(Hidden(), channels=1, width=64)).backbone.body.mask.isinf().all()


def build_small(channels):
    """A network of few weights for large images."""
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(16 * channels, 64))


def test_a_small_network_of_the_users_own_may_look_at_large_images(tmp_path, monkeypatch):
    from duet import plugin
    from duet.model import Encoder
    from duet.networks import build_backbone
    from duet.representation import Flat

    monkeypatch.setattr(plugin, "_TRUSTED", {__name__})
    made = Encoder(build_backbone(f"{__name__}:build_small", channels=1), Flat(64), [], image_size=1600)
    assert load(made.save(tmp_path)).image_size == (1600, 1600)


class Fetched(Exception):
    """Something was asked for that no file may ask for."""


@pytest.mark.parametrize(
    "name",
    [
        *("timm:hf-hub:someone/else", "timm:hf_hub:someone/else", "timm:local-dir:/etc", "timm:someone/else"),
        *("timm:../../x", "timm:http://x", "timm:a b", "timm:a\nb", "timm:", "timm:a:b", "hf-hub:someone/else"),
        *("https://someone/else", "os:system", "os.path:join", "../x", "\x1b[31m", "x" * 10_000),
    ],
)
@pytest.mark.parametrize("trunk", [False, True])
def test_only_plain_names_of_networks_are_taken(tmp_path, monkeypatch, name, trunk):
    def create_model(*_, **__):
        raise Fetched

    monkeypatch.setitem(sys.modules, "timm", type("timm", (), {"create_model": create_model}))
    monkeypatch.setattr("socket.socket.connect", create_model)
    folder = (on_trunk() if trunk else random_encoder()).save(tmp_path / "model")
    change(folder, ("backbone", "trunk", "name") if trunk else ("backbone", "name"), name)
    with pytest.raises(DuetError) as caught:
        load(folder)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 1000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process's memory is read on Linux")
@pytest.mark.parametrize("half", [False, True])
def test_a_model_is_loaded_in_a_few_times_its_size(tmp_path, half):
    memory = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "faults" / "memory.py"))
    folder = memory["make_model"]("resnet18", tmp_path, half)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
    assert size > 20
    assert size / 2 < memory["growth"](folder) < 2.5 * size + 200
