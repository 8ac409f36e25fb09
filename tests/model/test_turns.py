"""Test-time turns: the mean of turned copies, turned back, is a table that turns exactly with the image."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import duet
from duet.cli import main
from duet.evaluation.layer import Tap
from duet.groups import GROUPS, Rotation, rot360
from duet.model import Encoder
from duet.model.export import TOLERANCE, export, output_names
from duet.model.turns import turned
from duet.networks import wrap
from duet.representation import Axis, Table, VonMises
from tests.conftest import confident, make_compass, random_encoder

MODELS = {
    "table": {"corners": "circle"},
    "black corners": {},
    "quarters": {"group": ["rot4"]},
    "concatenated": {"group": ["hflip", "rot360"], "layout": "concatenated", "bins": 4},
    "joint": {"group": ["rot360", "scale"], "layout": "joint", "bins": 4},
    "relative": {"reference": "relative"},
}


def model(name="table", turns=1, size=12):
    encoder = random_encoder(size, **MODELS[name])
    encoder.turns = turns
    return encoder


def pictures(count=3, size=12, seed=0):
    return torch.rand(count, 1, size, size, generator=torch.Generator().manual_seed(seed))


def rotation(encoder):
    return next(axis for axis in encoder.layout.axes if axis.name in ("rot360", "rot4"))


def test_one_turn_is_the_plain_encoder():
    encoder, images = random_encoder(12, corners="circle"), pictures()
    assert encoder.turns == 1
    plain = encoder.backbone(rot360("circle").mask(images))
    assert torch.equal(encoder(images), plain)
    with encoder.looking(2):
        assert not torch.equal(encoder(images), plain)
    encoder.turns = 1
    assert torch.equal(encoder(images), plain)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(MODELS)), st.sampled_from([2, 4]), st.integers(0, 3), st.integers(0, 99))
def test_features_turn_exactly_with_the_image(name, turns, j, seed):
    encoder, images = model(name, turns), pictures(seed=seed)
    axis = rotation(encoder)
    z, moved = (encoder.features(x) for x in (images, torch.rot90(images, 4 // turns * j, (2, 3))))
    expected = encoder.layout.roll(z, axis, j * axis.bins // turns)
    assert torch.allclose(moved, expected, atol=2e-5)
    assert torch.allclose(encoder.layout.content(moved), encoder.layout.content(z), atol=1e-4)
    # Of two places that match the masses equally well the grid decides: the reading is as good, not always the same.
    before, after = (encoder.representation(30 * f).recover(axis).g.double() for f in (z, moved))
    roots = encoder.layout.group_logits(30 * moved, axis).double().softmax(-1).sqrt()
    found, turned_reading = (
        (roots * axis.target.masses(g % 1, axis.bins).sqrt()).sum(-1) for g in (after, before + j / turns)
    )
    assert torch.allclose(found, turned_reading, atol=3e-4)
    for other in encoder.layout.axes:
        if other != axis:
            ours, theirs = (encoder.layout.group_logits(f, other) for f in (z, moved))
            assert torch.allclose(ours, theirs, atol=1e-5)


def test_without_turns_features_do_not_turn_exactly():
    encoder, images = model("table", 1), pictures()
    axis = rotation(encoder)
    moved = encoder.features(torch.rot90(images, 1, (2, 3)))
    assert not torch.allclose(moved, encoder.layout.roll(encoder.features(images), axis, axis.bins // 4), atol=1e-2)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("turns", [2, 4])
def test_the_mean_of_copies_by_a_slow_loop(name, turns):
    encoder, images = model(name, turns), pictures()
    axis = rotation(encoder)
    group, place = encoder.groups[axis.name], [own.name for own in encoder.layout.axes].index(axis.name)
    total = torch.zeros(3, encoder.layout.dim)
    for k in range(turns):
        g = torch.full((3,), (group.identity + k / turns) % 1)
        shown = images
        for own in encoder.groups.values():
            shown = own.mask(shown)
        f = encoder.backbone(group.apply(shown, g)).detach()
        for image in range(3):
            table = f[image].reshape(encoder.layout.rows, -1).clone()
            if name == "joint":
                table = table.reshape(encoder.layout.rows, 4, 4).transpose(1, 2).reshape(-1, 4).clone()
            first = 4 * place if name == "concatenated" else 0
            back = table.clone()
            for column in range(axis.bins):
                back[:, first + column] = table[:, first + (column + k * axis.bins // turns) % axis.bins]
            if name == "joint":
                back = back.reshape(encoder.layout.rows, 4, 4).transpose(1, 2)
            total[image] += back.reshape(-1) / turns
    assert torch.allclose(encoder.features(images), total, atol=1e-5)


@pytest.mark.parametrize("group", [rot360(), rot360("circle"), GROUPS["rot4"]])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_quarter_turns_move_pixels_as_the_group_does(group, quarters):
    images = group.mask(pictures(size=9))
    g = torch.full((3,), (group.identity + quarters / 4) % 1)
    assert torch.allclose(turned(images, quarters / 4, group), group.apply(images, g), atol=1e-6)
    assert set(turned(images, quarters / 4, group).flatten().tolist()) == set(images.flatten().tolist())


def test_other_turns_are_the_groups_own():
    group, images = rot360("circle"), pictures()
    assert torch.equal(turned(images, 1 / 8, group), group.transform(images, torch.full((3,), 0.625)))
    encoder = random_encoder(12, corners="circle")
    encoder.turns = 8
    axis = rotation(encoder)
    z, moved = (encoder.features(x) for x in (images, torch.rot90(images, 1, (2, 3))))
    assert torch.allclose(moved, encoder.layout.roll(z, axis, 2), atol=1e-4)


@pytest.mark.parametrize("turns", [2, 4])
def test_an_equivariant_network_is_left_as_it_is(turns):
    compass, images = make_compass(), torch.zeros(4, 1, 28, 28)
    for image, (row, column) in zip(images, [(2, 14), (9, 22), (20, 3), (13, 25)], strict=True):
        image[0, row, column] = 1
    plain = compass.features(images)
    compass.turns = turns
    assert torch.allclose(compass.features(images), plain, atol=1e-4)


def test_batches_do_not_matter_and_many_pixels_are_not_held_at_once():
    encoder, images = model("table", 4), pictures(7)
    sizes = []
    encoder.backbone.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    assert torch.allclose(encoder.features(images, batch=8), encoder.features(images), atol=1e-5)
    assert sizes == [8, 8, 8, 4, 28]
    assert encoder.features(images[:0]).shape == (0, encoder.layout.dim)


def test_a_confidence_belongs_to_its_turns():
    encoder = confident(model("table", 4))
    images = pictures()
    assert encoder.recover(encoder.features(images)).probability is not None
    assert sorted(encoder.confidences) == [4]
    encoder.turns = 2
    reading = encoder.recover(encoder.features(images))
    assert encoder.confidence is None
    assert reading.probability is None
    assert "not calibrated" in repr(reading)
    before = encoder.digest
    encoder.turns = 4
    assert encoder.digest != before


def test_it_is_told_and_comes_back(tmp_path):
    encoder = confident(model("table", 4), 0.1)
    encoder.add_confidence(confident(model("table"), 0.3).confidence, 1)
    assert repr(encoder).endswith("groups: rot360, 4 turns)")
    assert encoder.description["turns"] == 4
    folder = encoder.save(tmp_path / "model")
    assert json.loads((folder / "config.json").read_text())["turns"] == 4
    assert "looks at 4 turned copies" in (folder / "README.md").read_text()
    again, images = duet.load(folder), pictures()
    assert again.turns == 4
    assert torch.equal(again.features(images), encoder.features(images))
    assert again.digest == encoder.digest
    fast = duet.load(folder, turns=1)
    encoder.turns = 1
    assert fast.turns == 1
    assert torch.equal(fast.features(images), encoder.features(images))
    for ours, theirs in ((again, again.confidences[4]), (fast, again.confidences[1])):
        z = ours.features(images)
        assert torch.equal(ours.confidence.strangeness(z), theirs.strangeness(z))
    assert fast.digest == encoder.digest
    assert duet.load(folder, turns=2).confidence is None


def test_a_model_of_before_there_were_turns_looks_once(model_folder):
    folder = model_folder()
    config = json.loads((folder / "config.json").read_text())
    assert (config.pop("turns"), config.pop("confidences"), config.pop("precision")) == (1, {}, "float32")
    (folder / "config.json").write_text(json.dumps(config))
    assert duet.load(folder).turns == 1


def test_turns_of_a_strangers_model_are_checked(model_folder):
    folder = model_folder()
    config = json.loads((folder / "config.json").read_text())
    for odd in ("4", 3, 0, True, 10**9):
        (folder / "config.json").write_text(json.dumps({**config, "turns": odd}))
        with pytest.raises(duet.DuetError, match="turns"):
            duet.load(folder)


def test_the_shipped_model_is_what_it_was():
    assert duet.load("digits-rot360").digest == "f0737119a8faffd5"


@pytest.mark.parametrize(
    ("settings", "size", "turns", "line"),
    [
        ({}, 12, 0, "turns are a whole number, 1 or more, not 0"),
        ({}, 12, 2.0, "turns are a whole number, 1 or more, not 2.0"),
        ({}, 12, 3, "3 turns do not divide the 8 columns of rot360; give turns that do"),
        ({}, 12, 8, "8 turns need images that are seen through a disc (corners circle); 2 and 4 do not"),
        ({}, (12, 10), 4, "4 turns need square images, and these are 10 x 12; give turns 1"),
        ({"method": "simclr"}, 12, 4, "4 turns need a table with one rotation; the groups with columns: none; give"),
        ({"group": ["hflip"]}, 12, 4, "4 turns need a table with one rotation; the groups with columns: hflip; give"),
        (
            {"group": ["rot4", "rot360"]},
            12,
            4,
            "4 turns need a table with one rotation; the groups with columns: rot4, ",
        ),
        ({"group": ["rot4"]}, 12, 8, "8 turns do not divide the 4 elements of rot4; give turns that do"),
    ],
)
def test_what_means_nothing_is_one_line(settings, size, turns, line):
    encoder = random_encoder(size, **settings)
    with pytest.raises(duet.DuetError) as error:
        encoder.turns = turns
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    assert encoder.turns == 1


def test_a_part_of_the_circle_has_no_turns():
    axis, part = Axis("tilt", 8, VonMises(0.2)), Rotation("tilt", (-30.0, 30.0), 0.5)
    backbone = wrap(torch.nn.Flatten(), channels=1, width=16)
    with pytest.raises(duet.DuetError, match="4 turns go all around, and tilt does not"):
        Encoder(backbone, Table(2, axis), [part], turns=4)


def test_images_that_are_not_square_are_refused_when_they_come():
    encoder = model("table", 4, size=None)
    with pytest.raises(duet.DuetError, match="4 turns need square images, and these are 10 x 12"):
        encoder(torch.rand(2, 1, 12, 10))


@pytest.mark.parametrize(("kind", "turns"), [("onnx", 4), ("pt2", 8)])
def test_an_exported_graph_holds_the_turns(kind, turns, tmp_path):
    encoder = confident(model("table", turns), 0.1)
    with torch.no_grad():
        encoder.backbone.norm.weight.mul_(
            10
        )  # the mean of random tables is nearly flat: g would be known to few digits
    assert export(encoder, tmp_path / f"model.{kind}", kind) < TOLERANCE
    if kind == "onnx":
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
        images, g = pictures(5), torch.rand(5)
        found = session.run(None, {"images": images.numpy(), "g": g.numpy()})
        out = dict(zip(output_names(encoder), found, strict=True))
        assert np.allclose(out["features"], encoder.features(images), atol=TOLERANCE)
        encoder.turns = 1
        assert not np.allclose(out["features"], encoder.features(images), atol=1e-2)


def test_layers_are_read_off_the_untouched_images():
    encoder, images = model("table", 1), pictures(5)
    name = next(name for name, _ in encoder.backbone.named_modules() if name.count(".") == 1)
    tap = Tap(encoder.backbone, [name])
    readings = tap.readings(encoder, images)
    plain = tap.outputs(encoder, images, readings)
    encoder.turns = 4
    assert torch.allclose(tap.outputs(encoder, images, readings), plain, atol=1e-6)


def test_commands_take_turns(tmp_path, capsys):
    encoder = confident(random_encoder(28), 0.0)
    encoder.turns = 4
    folder = str(confident(encoder, 0.0).save(tmp_path / "model"))
    images = tmp_path / "images"
    images.mkdir()
    from PIL import Image

    for number in range(2):
        Image.fromarray(np.full((28, 28), 40 * number, np.uint8)).save(images / f"{number}.png")
    for turns, place in ((None, "own"), ("1", "one")):
        more = [] if turns is None else ["--turns", turns]
        assert main(["embed", str(images), "-o", str(tmp_path / f"{place}.npz"), "--model", folder, *more]) == 0
    own, one = (np.load(tmp_path / f"{place}.npz")["features"] for place in ("own", "one"))
    assert not np.allclose(own, one, atol=1e-3)
    capsys.readouterr()
    assert main(["orient", str(images), "--csv", str(tmp_path / "a.csv"), "--model", folder, "--turns", "2"]) == 2
    line = capsys.readouterr().err
    assert line == "duet: this model knows how sure it is with 1 or 4 turns, not with 2: give --turns 1 or 4\n"
    assert main(["embed", str(images), "-o", str(tmp_path / "x.npz"), "--model", folder, "--turns", "3"]) == 2
    assert capsys.readouterr().err == "duet: 3 turns do not divide the 8 columns of rot360; give turns that do\n"
