"""Encoders by whatever name they go, ready for images that all of them share."""

import sys
import types

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from duet.data import MemoryImages
from duet.evaluation.candidate import find_encoder, reset_weights
from duet.evaluation.input import batch_of, fit_images
from duet.groups import GROUPS
from duet.model import Encoder

CPU = torch.device("cpu")
ROTATION = {"rot360": GROUPS["rot360"]}


def images(channels=1, side=28, n=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = (255 * torch.rand(n, channels, side, side, generator=generator)).byte()
    return MemoryImages("made", "train", pixels, torch.arange(n) % 3)


def build(name, of=None, width=100):
    return find_encoder(name, CPU).build(of or images(), ROTATION, CPU, 0, width)


@pytest.mark.parametrize("size", [(16, 16), (20, 31), (64, 64)])
def test_resizing_is_that_of_image_libraries(size):
    pixels = (255 * torch.rand(1, 3, 40, 40 * size[1] // size[0], generator=torch.Generator().manual_seed(1))).byte()
    found = fit_images(pixels, 3, size)
    height, width = pixels.shape[2:]
    scale = min(height / size[0], width / size[1])
    inner = round(size[0] * scale), round(size[1] * scale)
    top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
    picture = Image.fromarray(pixels[0].permute(1, 2, 0).numpy())
    picture = picture.crop((left, top, left + inner[1], top + inner[0])).resize(size[::-1], Image.Resampling.BILINEAR)
    theirs = torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255
    assert found.shape == (1, 3, *size)
    assert (found[0] - theirs).abs().max() < 1.6 / 255  # they round to whole grey levels


def test_the_centre_is_kept_when_the_shape_differs():
    wide = torch.zeros(1, 1, 4, 12)
    wide[..., 4:8] = 1
    assert fit_images(wide, None, (4, 4)).min() == 1
    assert fit_images(wide.transpose(2, 3), None, (2, 2)).min() == 1


def test_grey_is_that_of_image_libraries_and_colour_is_repeated():
    pixels = (255 * torch.rand(1, 3, 6, 6)).byte()
    theirs = np.array(Image.fromarray(pixels[0].permute(1, 2, 0).numpy()).convert("L"))
    found = fit_images(pixels, 1, None)[0, 0]
    assert (found - torch.from_numpy(theirs) / 255).abs().max() < 1.1 / 255
    grey = torch.rand(2, 1, 3, 3)
    assert torch.equal(fit_images(grey, 3, None), grey.repeat(1, 3, 1, 1))
    assert fit_images(grey, None, (3, 3)) is grey


def test_large_images_come_in_small_batches():
    assert batch_of(1, (28, 28)) == 512
    assert batch_of(3, (224, 224)) * 3 * 224 * 224 <= 2**24
    assert batch_of(3, (10_000, 10_000)) == 1


def test_a_model_sees_images_as_it_knows_them():
    same = build("digits-rot360")
    assert isinstance(same.subject, Encoder)
    assert same.fresh.digest != same.subject.digest
    colour = images(channels=3, side=40)
    other = build("digits-rot360", colour)
    wanted = same.subject.features(fit_images(colour.tensors()[0], 1, (28, 28)))
    assert torch.allclose(other.subject.features(colour.tensors()[0]), wanted, atol=1e-5)
    assert other.subject.layout == same.subject.layout
    assert other.subject.digest == same.subject.digest
    assert other.fresh.features(colour.tensors()[0]).shape == wanted.shape
    assert other.facts == {"image_size": [28, 28], "channels": 1}
    assert not other.rival


def test_pixels_and_fresh_networks_are_rivals():
    pixels = build("pixels", width=100)
    assert pixels.rival
    assert pixels.subject.layout.dim == 100
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again = build("untrained:tiny"), build("untrained:tiny")
    assert torch.equal(before, torch.get_rng_state())
    assert first.rival
    assert first.subject.digest == again.subject.digest
    mean, std = images().statistics()
    assert torch.allclose(first.module.mean.flatten(), mean)
    assert torch.allclose(first.module.std.flatten(), std)


def test_patches_by_name_have_their_centroids_and_their_width():
    source = images(side=12, n=40)
    plain, whole, reduced = (build(name, source, width=10) for name in ("patches", "patches:6", "patches:6/7"))
    assert all(own.rival for own in (plain, whole, reduced))
    assert [own.facts for own in (plain, whole, reduced)] == [{"centroids": n} for n in (100, 6, 6)]
    assert [own.subject.layout.dim for own in (plain, whole, reduced)] == [10, 24, 7]  # the first as wide as the others
    assert reduced.subject.features(source.tensors()[0]).shape == (40, 7)
    few = find_encoder("patches", CPU, centroids=5).build(source, ROTATION, CPU, 0, 128)
    assert few.subject.layout.dim == 20
    assert few.subject.description["centroids"] == 5


def test_a_module_of_the_users(tmp_path, monkeypatch):
    (tmp_path / "mine_for_scores.py").write_text(
        "import torch\n"
        "def build(channels):\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * 784, 7))\n"
        "def function():\n    return lambda images: images.flatten(1)[:, :5]\n"
        "def nothing():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(1)  # fresh weights are drawn with seed 0
    found = build("mine_for_scores:build")
    assert found.subject.layout.dim == 7
    assert isinstance(found.module, nn.Sequential)
    assert found.fresh.digest != found.subject.digest
    assert found.facts == {"image_size": [28, 28], "channels": 1}
    plain = build("mine_for_scores:function")
    assert plain.module is None
    assert plain.fresh is None
    with pytest.raises(ValueError, match="not a int"):
        build("mine_for_scores:nothing")
    sys.modules.pop("mine_for_scores")


class StandIn(nn.Module):
    """What a model of timm looks like from here."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, stride=2)
        self.seen = []

    def forward(self, images):
        self.seen.append(images)
        return self.stem(images).mean((2, 3))


@pytest.fixture
def timm(monkeypatch):
    """timm needs torchvision, which need not be there: a module with the two functions that are asked for."""
    module = types.ModuleType("timm")
    module.asked = []

    def create_model(name, pretrained, num_classes):
        module.asked.append((name, pretrained, num_classes))
        if name != "resnet18.a1_in1k":
            raise RuntimeError(f"Unknown model ({name})")
        return StandIn()

    module.create_model = create_model
    config = {"input_size": (3, 32, 32), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.5)}
    module.data = types.SimpleNamespace(resolve_model_data_config=lambda model: config)
    monkeypatch.setitem(sys.modules, "timm", module)
    return module


def test_a_model_of_timm_with_its_own_size_and_normalisation(timm):
    torch.manual_seed(1)  # fresh weights are drawn with seed 0
    named = find_encoder("timm:resnet18.a1_in1k", CPU)
    assert timm.asked == [("resnet18.a1_in1k", True, 0)]
    assert named.size == (32, 32)
    source = images(channels=1, side=48)
    found = named.build(source, ROTATION, CPU, 0, 100)
    assert found.facts == {"image_size": [32, 32], "channels": 3, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.5]}
    found.module.seen.clear()
    found.subject.features(source.tensors()[0])
    (seen,) = found.module.seen
    wanted = fit_images(source.tensors()[0], 3, (32, 32))
    wanted = (wanted - torch.tensor([0.5, 0.4, 0.3])[:, None, None]) / torch.tensor([0.2, 0.25, 0.5])[:, None, None]
    assert torch.allclose(seen, wanted, atol=1e-6)
    assert found.fresh.digest != found.subject.digest
    assert not found.module.training
    assert [name for name, _ in found.module.named_modules()] == ["", "stem"]


def test_what_timm_does_not_have_is_one_line(timm, monkeypatch):
    with pytest.raises(ValueError, match="timm cannot give 'resnet19' with its weights: Unknown model") as raised:
        find_encoder("timm:resnet19", CPU)
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="plain names"):
        find_encoder("timm:hf-hub:who/what", CPU)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"pip install '.*\[timm\]'"):
        find_encoder("timm:resnet18", CPU)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("untrained:resnet33", "did you mean 'resnet32'"),
        ("patches:1", "say patches, patches:800 or patches:800/256"),
        ("patches:800/0", "say patches, patches:800 or patches:800/256"),
        ("patches:800/two", "say patches, patches:800 or patches:800/256"),
        ("patches:build", "cannot import|has no 'build'"),  # a function of a file patches.py
        ("digits-rot36", "no model 'digits-rot36'"),
        ("no_such_module_at_all:build", "cannot import"),
    ],
)
def test_who_is_not_there_is_one_line(name, message):
    with pytest.raises(ValueError, match=message):
        build(name)


def test_a_module_that_seeds_itself_has_an_untrained_baseline_too(tmp_path, monkeypatch):
    (tmp_path / "seeded_for_scores.py").write_text(
        "import torch\n"
        "def build(channels):\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * 784, 7))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = build("seeded_for_scores:build")  # with the seed that fresh weights are drawn with
    assert found.fresh is not None
    assert found.fresh.digest != found.subject.digest
    assert found.fresh.digest == build("seeded_for_scores:build").fresh.digest
    sys.modules.pop("seeded_for_scores")


def test_fresh_weights_of_attention_and_of_matrices_that_start_constant():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.full((2, 2), 3.0))
            self.linear = nn.Linear(2, 2)

        def reset_parameters(self):
            nn.init.ones_(self.scale)

    assert reset_weights(nn.TransformerEncoderLayer(4, 2), 0) is not None
    assert reset_weights(Scaled(), 0).scale.tolist() == [[1, 1], [1, 1]]
    assert reset_weights(reset_weights(Scaled(), 0), 0) is not None


def test_fresh_weights_only_where_all_of_them_are():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 2))

    assert reset_weights(Odd(), 0) is None
    assert reset_weights(nn.Flatten(), 0) is None
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    network[1].running_mean.add_(1)
    before = network[0].weight.clone()
    fresh = reset_weights(network, 0)
    assert fresh[1].running_mean.tolist() == [0, 0, 0]
    assert torch.equal(network[0].weight, before)
    assert torch.equal(fresh[0].weight, reset_weights(network, 0)[0].weight)
