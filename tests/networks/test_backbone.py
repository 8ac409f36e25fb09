"""Backbones: shapes, sizes, the final batch norm, and what users get wrong."""

import sys
import types

import pytest
import torch
from torch import nn

from duet.networks import BACKBONES, Backbone, build_backbone, wrap

CHEAP = ["tiny", "small", "resnet8-22mf", "resnet20", "resnet18", "resnet18-cifar"]


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def basic_block_size(i, o, projected):
    """Two 3x3 convolutions and two batch norms, plus a 1x1 projection with its own: counted by hand."""
    return 9 * i * o + 9 * o * o + 4 * o + (i * o + 2 * o if projected else 0)


def wide_cifar_size(blocks, channels=3):
    total, width = 9 * channels * 64 + 2 * 64, 64
    for stage in (128, 256, 512):
        total += basic_block_size(width, stage, True) + (blocks - 1) * basic_block_size(stage, stage, False)
        width = stage
    return total


@pytest.mark.parametrize(("name", "blocks"), [("resnet20", 3), ("resnet32", 5), ("resnet44", 7), ("resnet56", 9)])
def test_the_papers_networks_have_their_number_of_parameters(name, blocks):
    backbone = build_backbone(name)
    assert parameters(backbone.body) == wide_cifar_size(blocks)
    assert backbone.dim == 512


def test_the_papers_resnet32_has_29_6_million_parameters():
    assert round(parameters(build_backbone("resnet32")) / 1e6, 1) == 29.6


@pytest.mark.parametrize(("name", "size", "dim"), [("resnet18", 11_176_512, 512), ("resnet50", 23_508_032, 2048)])
def test_the_standard_networks_have_their_known_size(name, size, dim):
    backbone = build_backbone(name)
    assert parameters(backbone.body) == size
    assert backbone.dim == dim


@pytest.mark.parametrize(("name", "widths"), [("tiny", (16, 32, 128)), ("small", (32, 64, 128))])
def test_the_two_core_networks_have_128_features_and_a_known_size(name, widths):
    backbone = build_backbone(name, channels=1)
    stem = widths[0]
    blocks = zip((stem, *widths), widths, strict=False)
    assert parameters(backbone.body) == 9 * stem + 2 * stem + sum(basic_block_size(i, o, True) for i, o in blocks)
    assert backbone.dim == 128


@pytest.mark.parametrize(
    ("name", "megaflop"), [("small", 6.6), ("resnet8-22mf", 22), ("resnet8-88mf", 88), ("resnet18-half", 279)]
)
def test_a_network_costs_what_its_name_says(name, megaflop):
    """Multiplications and additions of convolutions, counted from their shapes."""
    backbone, counted = build_backbone(name).eval(), []

    def count(conv, inputs, output):
        counted.append(2 * conv.weight[0].numel() * output[0].numel())

    for conv in backbone.modules():
        if isinstance(conv, nn.Conv2d):
            conv.register_forward_hook(count)
    backbone(torch.rand(1, 3, 32, 32))
    assert sum(counted) / 1e6 == pytest.approx(megaflop, rel=0.03)
    assert name == "small" or backbone.dim == 256


def test_the_cifar_stem_keeps_the_resolution_and_the_imagenet_stem_quarters_it():
    images = torch.zeros(1, 3, 32, 32)
    for stem, size in [("cifar", 32), ("imagenet", 8)]:
        backbone = build_backbone("resnet18", stem=stem)
        assert backbone.body.stem(images).shape == (1, 64, size, size)
    assert parameters(build_backbone("resnet18", stem="cifar")) == parameters(build_backbone("resnet18-cifar"))


def test_resnet32_stages_have_strides_1_2_2():
    body = build_backbone("resnet32").eval().body
    sizes, x = [], torch.zeros(1, 3, 32, 32)
    with torch.no_grad():
        x = body.stem(x)
        for number, block in enumerate(body.blocks):
            x = block(x)
            if number % 5 == 4:
                sizes.append(tuple(x.shape[1:]))
    assert sizes == [(128, 32, 32), (256, 16, 16), (512, 8, 8)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(28, 28), (17, 23)])
@pytest.mark.parametrize("name", CHEAP)
def test_features_have_the_announced_shape(name, size, channels):
    backbone = build_backbone(name, channels=channels)
    assert backbone.channels == channels
    assert backbone(torch.rand(2, channels, *size)).shape == (2, backbone.dim)


@pytest.mark.parametrize("name", ["small", "resnet18", "resnet50-cifar"])
def test_gradients_reach_every_parameter(name):
    torch.manual_seed(0)
    backbone = build_backbone(name, dim=24)
    (backbone(torch.rand(4, 3, 16, 16)) * torch.randn(4, 24)).sum().backward()
    assert [n for n, p in backbone.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_another_dim_adds_one_linear_map_and_the_native_one_adds_none():
    assert isinstance(build_backbone("small").map, nn.Identity)
    assert isinstance(build_backbone("small", dim=128).map, nn.Identity)
    mapped = build_backbone("small", dim=64)
    assert mapped.map.weight.shape == (64, 128)
    assert mapped(torch.rand(2, 3, 32, 32)).shape == (2, 64)


@pytest.mark.parametrize(
    "make",
    [
        lambda: build_backbone("small"),
        lambda: wrap(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10), nn.BatchNorm1d(10))),
    ],
)
def test_the_final_batch_norm_is_ours_and_normalises(make):
    backbone = make()
    assert list(backbone.children())[-1] is backbone.norm
    assert backbone.norm.affine
    with torch.no_grad():
        backbone.norm.weight.fill_(2.0)
        backbone.norm.bias.fill_(0.5)
        features = backbone(torch.rand(64, 3, 32, 32))
    torch.testing.assert_close(features.mean(0), torch.full((backbone.dim,), 0.5), atol=1e-4, rtol=0)
    torch.testing.assert_close(features.std(0, correction=0), torch.full((backbone.dim,), 2.0), atol=0.1, rtol=0)


def test_evaluation_treats_every_image_alone_and_repeats_itself():
    backbone = build_backbone("small")
    images = torch.rand(8, 3, 32, 32)
    backbone(images)
    backbone.eval()
    together = backbone(images)
    assert torch.equal(together, backbone(images))
    torch.testing.assert_close(together[:1], backbone(images[:1]), atol=1e-5, rtol=1e-4)


def test_one_seed_gives_one_network_and_one_training_step():
    def step():
        torch.manual_seed(3)
        backbone = build_backbone("small")
        backbone(torch.rand(8, 3, 32, 32)).square().mean().backward()
        return [p.grad.clone() for p in backbone.parameters()], backbone.norm.running_var.clone()

    (first, var), (second, again) = step(), step()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(var, again)


@pytest.mark.parametrize("channels", [1, 3])
def test_activations_stay_channels_last(channels):
    backbone = build_backbone("small", channels=channels)
    seen = []
    for block in [backbone.body.stem, *backbone.body.blocks]:
        block.register_forward_hook(lambda *args: seen.append(args[2].is_contiguous(memory_format=torch.channels_last)))
    backbone(torch.rand(4, channels, 32, 32))
    assert seen == [True] * 4


def test_loading_weights_keeps_channels_last():
    backbone = build_backbone("resnet20")
    backbone.load_state_dict({k: v.contiguous() for k, v in build_backbone("resnet20").state_dict().items()})
    assert backbone.body.blocks[0].conv2.weight.is_contiguous(memory_format=torch.channels_last)


def test_channels_last_computes_the_same_features():
    torch.manual_seed(0)
    backbone = build_backbone("small").double()
    plain = Backbone(build_backbone("small").body, 128, channels_last=False).double()
    plain.load_state_dict(backbone.state_dict())
    images = torch.rand(4, 3, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(backbone(images), plain(images))


def test_weights_start_as_he_fan_out():
    torch.manual_seed(0)
    weight = build_backbone("resnet20").body.blocks[6].conv1.weight
    assert weight.shape == (512, 256, 3, 3)
    assert weight.std().item() == pytest.approx((2 / (9 * 512)) ** 0.5, rel=0.01)


def test_zero_init_starts_every_block_as_its_shortcut():
    backbone = build_backbone("resnet20", zero_init=True)
    block = backbone.body.blocks[1]
    x = torch.rand(2, 128, 4, 4)
    torch.testing.assert_close(block(x), x)
    assert build_backbone("resnet20").body.blocks[1].norm2.weight.all()


def test_bfloat16_works_cast_and_under_autocast():
    images = torch.rand(4, 3, 32, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = build_backbone("small")(images)
        features.float().square().mean().backward()
    assert features.shape == (4, 128)
    assert build_backbone("small").bfloat16()(images.bfloat16()).dtype == torch.bfloat16


def test_the_backbone_compiles_to_one_graph():
    backbone = build_backbone("small").eval()
    images = torch.rand(2, 3, 32, 32)
    compiled = torch.compile(backbone, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images), backbone(images))


@pytest.mark.parametrize(("name", "nearest"), [("resnet31", "resnet32"), ("smal", "small"), ("resnet-18", "resnet18")])
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"no encoder '{name}'.*{nearest}"):
        build_backbone(name)


def test_a_hopeless_name_lists_what_there_is():
    with pytest.raises(ValueError, match="small"):
        build_backbone("qqqq")


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("small", {"stem": "cifar"}, "has no option 'stem'; it has zero_init"),
        ("resnet18", {"stem": "moon"}, "no stem 'moon'; there are imagenet, cifar"),
        ("small", {"dim": 0}, "at least one feature"),
    ],
)
def test_wrong_options_are_refused(name, options, line):
    with pytest.raises(ValueError, match=line):
        build_backbone(name, **options)


@pytest.mark.parametrize("shape", [(2, 1, 32, 32), (3, 32, 32)])
def test_images_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"takes images \(B, 3, H, W\), got"):
        build_backbone("small")(torch.rand(shape))


def test_any_module_can_be_wrapped_and_is_left_as_it_was():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    module[0].eval()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    backbone = wrap(module, channels=1)
    assert backbone.dim == 4
    assert [part.training for part in module] == [False, True, True, True]
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert wrap(module, channels=1, width=4, dim=6)(torch.rand(3, 1, 9, 9)).shape == (3, 6)


@pytest.mark.parametrize("module", [nn.Conv2d(3, 4, 3), nn.Module()])
def test_a_module_that_returns_no_vectors_is_refused(module):
    if type(module) is nn.Module:
        module.forward = lambda images: [images]
    with pytest.raises(ValueError, match=r"must return features \(B, D\)"):
        wrap(module)


def test_a_missing_timm_is_said_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"timm:vit_tiny needs timm: pip install '.*\[timm\]'"):
        build_backbone("timm:vit_tiny")


def test_a_timm_model_becomes_a_backbone(monkeypatch):
    asked = {}

    def create_model(name, **options):
        if name == "nothing":
            raise RuntimeError("Unknown model (nothing)")
        asked.update(options, name=name)
        module = nn.Sequential(nn.Conv2d(options["in_chans"], 12, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        module.num_features = 12
        return module

    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    backbone = build_backbone("timm:thing", channels=1, dim=8)
    assert asked == {"name": "thing", "pretrained": False, "num_classes": 0, "in_chans": 1}
    assert backbone(torch.rand(2, 1, 16, 16)).shape == (2, 8)
    assert isinstance(backbone.norm, nn.BatchNorm1d)
    with pytest.raises(ValueError, match="timm cannot build 'nothing': Unknown model"):
        build_backbone("timm:nothing")


def test_networks_import_neither_torchvision_nor_timm():
    import subprocess

    code = "import sys, duet.networks; print([m for m in ('torchvision', 'timm', 'lightning') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_name_builds_with_every_channel_count():
    for name in BACKBONES:
        with torch.device("meta"):
            backbone = build_backbone(name, channels=1)
        assert backbone.body.stem[0].in_channels == 1
