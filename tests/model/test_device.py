"""What is computed stays where its tensors are. torch's `meta` device has shapes and no numbers, so what falls back to
the CPU, or looks at a number, fails here, as it would fail or wait on an accelerator.

Not run on meta, since they need numbers: fitting an action (it is tried again with more ridge), choosing rows by a mask
(how many there are depends on it), the nuisance of a crop from the images' own generator (meta has none), and whatever
is written or printed.
"""

from dataclasses import fields

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from duet import DuetError
from duet.device import find_device, full_precision
from duet.groups import GROUPS, Blur, Stack
from duet.groups.affine import permute_pixels
from duet.networks.decoder import small_decoder
from tests.conftest import confident, random_encoder

META = torch.device("meta")
MODELS = {
    "table": {},
    "disc": {"corners": "circle"},
    "interval": {"group": ["scale"]},
    "finite": {"group": ["rot4"]},
    "joint": {"group": ["rot360", "scale"], "layout": "joint", "bins": 4},
    "concatenated": {"group": ["rot360", "hflip"], "layout": "concatenated", "bins": 4},
    "relative": {"reference": "relative"},
    "flat": {"method": "simclr"},
}


def on_meta(*tensors):
    return all(tensor.device == META for tensor in tensors)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_and_all_that_its_features_can_do_stay_on_their_device(model):
    encoder = random_encoder(**MODELS[model])
    encoder = (encoder if encoder.relative else confident(encoder)).to("meta")
    assert encoder.device == META
    pixels = torch.randint(256, (5, 1, 28, 28), dtype=torch.uint8)
    z = encoder.features(pixels, batch=2)
    assert on_meta(z, encoder.features(pixels[:0]))
    assert z.shape == (5, 128)
    rep = encoder.embed(pixels, batch_size=3)
    assert on_meta(rep.flat, rep.content, *rep.nearest(2), rep[[0, 2]].flat, rep[1].flat)
    by = torch.rand(5)  # of the caller's, on the CPU
    for name in encoder.groups:
        assert on_meta(*(rep.shift(name, by=step, action="fitted").flat for step in (0.2, by)))
        assert on_meta(rep.action("fitted", name).orbit(z, 0.5, torch.linspace(0, 1, 3)))
    for axis in encoder.layout.axes:
        reading = encoder.recover(rep, axis)
        assert on_meta(rep.marginal(axis), *rep.recover(axis))
        parts = {f.name: getattr(reading, f.name) for f in fields(reading) if f.name != "unit"}
        assert on_meta(*(part for part in parts.values() if part is not None))
        assert {name for name, part in parts.items() if part is None} == (
            {"probability", "known", "sure"} if encoder.relative else set()
        )
        assert on_meta(*(rep.shift(axis, by=step).flat for step in (0.2, by)))
        assert on_meta(rep.action("prescribed", axis).orbit(z, 0.5, torch.linspace(0, 1, 3)))
        if not encoder.relative:
            assert on_meta(
                *(rep.act(axis, to=g, action=kind).flat for g in (0.2, by) for kind in ("prescribed", "fitted"))
            )


def test_an_encoder_and_its_features_move_together():
    encoder = random_encoder()
    rep = encoder.embed(torch.rand(3, 1, 28, 28)).to("meta")
    assert on_meta(rep.flat, rep.shift(by=0.1).flat, rep.shift(by=0.1, action="fitted").flat)
    assert encoder.actions["rot360"]["fitted"].weight.device.type == "cpu"


def test_a_decoder_draws_where_it_is():
    decoder = small_decoder(16, 1, (28, 28)).to("meta")
    assert decoder.images(torch.rand(5, 16), batch=2).shape == (5, 1, 28, 28)
    assert on_meta(decoder.images(torch.rand(5, 16), batch=2), decoder.images(torch.rand(0, 16)))


@pytest.mark.parametrize("corners", ["zero", "circle"])
@pytest.mark.parametrize("name", [*GROUPS, "blur"])
def test_every_group_transforms_where_the_images_are(name, corners):
    group = (Blur() if name == "blur" else GROUPS[name]).configured(corners=corners)
    pixels = torch.randint(256, (4, 3, 9, 12), dtype=torch.uint8, device="meta")
    for images in (pixels, pixels.float()):
        moved = group.apply(images, torch.rand(4))  # the g of a caller may be on the CPU
        assert on_meta(moved, group.mask(moved))
        assert moved.shape == images.shape
    assert on_meta(group.parameter(torch.rand(4, device="meta")), group.from_parameter(torch.rand(4, device="meta")))


@pytest.mark.parametrize("size", [None, 8])
@pytest.mark.parametrize("name", GROUPS)
def test_views_are_made_where_the_images_are(name, size):
    pixels = torch.randint(256, (4, 3, 12, 12), dtype=torch.uint8, device="meta")
    for stack in (Stack.rrc_plus(name, size=size), Stack.full(name, size=size)):
        view = stack(
            pixels, torch.Generator().manual_seed(0)
        )  # drawn on the CPU, so that a seed draws the same anywhere
        assert view.images.shape == (4, 3, size or 12, size or 12)
        assert on_meta(view.images, view.g[name])


class Single(TorchDispatchMode):
    """The meta device as one that has no double precision, as Apple's has none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.is_meta and tensor.dtype == torch.float64:
                raise TypeError(f"no float64 on this device: {func}")
        return out


@pytest.mark.parametrize("model", ["table", "disc", "finite", "flat"])
def test_a_model_is_used_where_there_is_no_double_precision(model):
    # Reading g needs more digits and is done on the CPU there, which meta cannot show.
    encoder = random_encoder(**MODELS[model])
    (name,) = encoder.groups
    action = encoder.actions[name]["fitted"]
    assert action.weight.dtype == torch.float64
    with Single():
        rep = encoder.to("meta").embed(torch.rand(3, 1, 28, 28))
        assert on_meta(rep.flat, rep.content, *rep.nearest(1), rep.shift(name, by=0.2, action="fitted").flat)
    assert encoder.actions[name]["fitted"] is action
    assert on_meta(action.weight)
    assert action.weight.dtype == torch.float32


@pytest.mark.parametrize("name", GROUPS)
def test_images_are_transformed_where_there_is_no_double_precision(name):
    images, decoder = torch.rand(4, 3, 12, 12), small_decoder(16, 1, (28, 28))
    with Single():
        images = images.to("meta")
        assert on_meta(GROUPS[name].apply(images, torch.rand(4)))
        assert on_meta(Stack.full(name)(images, torch.Generator().manual_seed(0)).images)
        assert on_meta(decoder.to("meta").images(torch.rand(2, 16)))
        quarter = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]).expand(4, 2, 3).to("meta")
        assert on_meta(permute_pixels(images, quarter))


def test_an_action_in_single_precision_is_the_same_action():
    action = random_encoder().actions["rot360"]["fitted"]
    z, by = torch.randn(5, 128), torch.rand(5)
    before = action.act(z, by)

    def move(tensor):
        if tensor.dtype == torch.float64:
            raise TypeError("no float64")
        return tensor.clone()

    assert torch.allclose(action._apply(move).act(z, by), before, atol=1e-4)


def test_a_device_without_autocast_needs_none_to_be_switched_off():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision(torch.empty(1)):
            assert (torch.rand(2, 2) @ torch.rand(2, 2)).dtype == torch.float32
        with full_precision(torch.empty(1, device="meta")):
            assert (torch.rand(2, 2) @ torch.rand(2, 2)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda", "this machine has no cuda that torch can use; take --device cpu, or auto"),
        ("cuda:1", "this machine has no cuda"),
        ("mps", "this machine has no mps"),
        ("gpu", "no device 'gpu'; there are auto, cpu, cuda, mps"),
    ],
)
def test_a_device_that_is_not_there_is_one_line(name, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DuetError) as caught:
        find_device(name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_auto_is_the_first_accelerator_that_there_is(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_device() == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda:1")
    for name, message in (("cuda:2", "only 2 of cuda"), ("xla", "no device 'xla'"), ("cuda:x", "no device")):
        with pytest.raises(DuetError, match=message):
            find_device(name)
    assert find_device(META) == META
