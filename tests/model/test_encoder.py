"""An Encoder of one's own: a network, a layout and groups, and nothing about how they came to be."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import nn

import duet
from duet import DuetError
from duet.groups import GROUPS, Group, rot360
from duet.model.export import export
from duet.networks import build_backbone, wrap
from duet.representation import Axis, FittedAction, Flat, Gaussian, Joint, Prescribed, Table, VonMises
from tests import warm
from tests.conftest import confident, make_compass, random_encoder

AXIS = Axis("rot360", 8, VonMises())


def network(seed=0):
    """A network of one's own for images of any size: 32 features."""
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return wrap(body, channels=1, width=32)


def own(groups=("rot360",), layout=None, **settings):
    return duet.Encoder(network(), layout or Table(4, AXIS), groups, **settings)


def one_line(caught):
    return "\n" not in str(caught.value)


@pytest.mark.parametrize("groups", [["rot360"], "rot360", [GROUPS["rot360"]], {"rot360": GROUPS["rot360"]}])
def test_groups_are_given_by_name_or_as_they_are(groups):
    assert own(groups).groups == {"rot360": GROUPS["rot360"]}


def test_a_network_of_ones_own_comes_back_when_it_is_handed_in(tmp_path):
    encoder = own(image_size=8, provenance={"note": "mine"})
    folder = encoder.save(tmp_path / "m")
    images = torch.rand(3, 1, 8, 8)
    again = duet.load(folder, backbone=network(seed=1))
    assert torch.equal(again.features(images), encoder.features(images))
    assert again.layout == encoder.layout
    assert again.provenance == {"note": "mine"}
    with pytest.raises(DuetError, match=r"a module of its own: build it and give load\(..., backbone=it\)") as caught:
        duet.load(folder)
    assert one_line(caught)
    with pytest.raises(DuetError, match="does not hold a whole duet model"):
        duet.load(folder, backbone=wrap(nn.Sequential(nn.Flatten(), nn.Linear(64, 32)), channels=1, width=32))


def test_a_group_comes_back_as_it_was_set(tmp_path):
    encoder = random_encoder(corners="circle", group=["rot360", "scale"], area=[0.5, 1.0])
    groups = duet.load(encoder.save(tmp_path)).groups
    assert list(groups) == ["rot360", "scale"]
    assert groups["rot360"].corners == "circle"
    assert groups["scale"].area == (0.5, 1.0)


def test_without_a_size_images_are_taken_as_they_are(tmp_path):
    encoder = duet.load(own().save(tmp_path / "m"), backbone=network())
    assert encoder.image_size is None
    for height, width in ((9, 9), (12, 7)):
        images = torch.rand(3, 1, height, width)
        assert torch.allclose(encoder.embed(images).flat, encoder.features(images))
        arrays = [image.permute(1, 2, 0).numpy() for image in images]
        assert torch.allclose(encoder.embed(arrays).flat, encoder.features(images), atol=1e-6)


def test_without_a_size_a_mix_of_sizes_and_an_export_are_refused(tmp_path):
    mixed = [np.zeros((8, 8), np.uint8), np.zeros((8, 9), np.uint8)]
    with pytest.raises(DuetError, match=r"images of different sizes \(8x8 and 9x8\)") as caught:
        own().embed(mixed)
    assert one_line(caught)
    assert len(own(image_size=8).embed(mixed)) == 2
    with pytest.raises(
        DuetError, match=r"which size of images it takes; give Encoder\(..., image_size=...\)"
    ) as caught:
        export(own(), tmp_path / "model.pt2", "pt2")
    assert one_line(caught)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: own(["scale"]), "columns for 'rot360', which is not among its groups"),
        (lambda: own(["rot361"]), "no group 'rot361'"),
        (lambda: own(reference="both"), "'absolute' or 'relative', not 'both'"),
        (lambda: own(layout=Table(5, AXIS)), "32 features in a layout of 40"),
        (lambda: duet.Encoder(nn.Flatten(), Flat(32), []), r"duet.networks.wrap\(module\)"),
        (
            lambda: own(actions={"scale": FittedAction.fit(*torch.rand(2, 9, 32), torch.rand(9), False)}),
            "of 'scale', wh",
        ),
        (lambda: own().add_action("rot360", Prescribed(Table(4, AXIS), AXIS)), "comes by itself"),
    ],
)
def test_what_does_not_fit_together_is_one_line(make, message):
    with pytest.raises(DuetError, match=message) as caught:
        make()
    assert one_line(caught)


def test_an_action_that_is_added_is_used_and_kept(tmp_path):
    encoder = own()
    z = torch.randn(200, 32)
    action = FittedAction.fit(z, z.roll(1, 1), torch.zeros(200), cyclic=True, order=0)
    before = encoder.digest
    encoder.add_action("rot360", action)
    assert encoder.digest != before
    rep = encoder.representation(z)
    assert torch.allclose(rep.shift(by=0.3, action="fitted").flat, z.roll(1, 1), atol=1e-3)
    again = duet.load(encoder.save(tmp_path), backbone=network())
    assert torch.equal(again.actions["rot360"]["fitted"].act(z, 0.3), action.act(z, 0.3))
    with pytest.raises(DuetError, match="an action of 'hue', which is not among its groups: rot360") as caught:
        encoder.add_action("hue", action)
    assert one_line(caught)


def other_corners(images):
    """The same images with other pixels outside the inscribed disc."""
    side = torch.arange(images.shape[-1]) - (images.shape[-1] - 1) / 2
    outside = side[:, None] ** 2 + side**2 > (images.shape[-1] / 2 + 0.1) ** 2
    assert outside.any()
    return torch.where(outside, 1 - images, images)


@pytest.mark.parametrize("corners", ["zero", "circle"])
def test_an_encoder_that_was_trained_through_a_disc_masks_every_image_itself(corners, tmp_path):
    encoder = duet.load(random_encoder(corners=corners).save(tmp_path))
    images = torch.rand(4, 1, 28, 28)
    others = other_corners(images)
    for features in (encoder.features, encoder, lambda x: encoder.embed(x).flat):
        assert torch.equal(features(images), features(others)) == (corners == "circle")


def test_the_exported_graph_masks_too_and_leaves_no_traced_tensor_behind(tmp_path):
    encoder = random_encoder(size=26, corners="circle")  # a size that nothing else has asked for
    export(encoder, tmp_path / "model.pt2", "pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    images = torch.rand(4, 1, 26, 26)
    found, other = program(images, torch.rand(4))[0], program(other_corners(images), torch.rand(4))[0]
    assert torch.equal(found, other)
    assert torch.allclose(found, encoder.features(images), atol=1e-5)


def test_pixels_first_placed_in_inference_mode_still_take_gradients():
    encoder = duet.Encoder(network(), Table(4, AXIS), [rot360("circle")])
    encoder.features(torch.rand(2, 1, 13, 13))  # a size that nothing else has asked for
    g = torch.tensor([0.3, 0.7], requires_grad=True)
    encoder(GROUPS["rot360"].apply(torch.rand(2, 1, 13, 13), g)).sum().backward()
    assert torch.isfinite(g.grad).all()
    assert (g.grad != 0).all()


def spot(*degrees):
    """Bright spots at angles counter-clockwise from straight above the centre."""
    images = torch.zeros(len(degrees), 1, 29, 29)
    for image, angle in zip(images, np.deg2rad(degrees), strict=True):
        image[0, round(14 - 10 * np.cos(angle)), round(14 - 10 * np.sin(angle))] = 1
    return images


def test_a_reading_is_in_degrees_and_in_g():
    compass = make_compass(size=29)
    angles = torch.tensor([0.0, 90.0, -90.0, 45.0, -135.0])
    reading = compass.recover(compass.embed(spot(*angles.tolist())))
    assert reading.unit == "degrees"
    assert torch.allclose(reading.value, angles, atol=1)
    assert torch.allclose(reading.g, (angles + 180) / 360, atol=3e-3)
    assert ((reading.g >= 0) & (reading.g <= 1)).all()
    assert ((reading.spread > 20) & (reading.spread < 60)).all()  # that of the target, in degrees


def test_a_reading_without_calibration_says_neither_sure_nor_unsure():
    compass = make_compass(size=29)
    reading = compass.recover(compass.embed(torch.cat([spot(45, -90), torch.zeros(1, 1, 29, 29)])))
    assert (reading.probability, reading.known, reading.sure) == (None, None, None)
    assert reading.unknown.tolist() == [False, False, True]  # as flat as can be
    assert reading.words(0)[1:] == ["\N{MINUS SIGN}90°", "unknown"]
    assert repr(reading).endswith("unknown; not calibrated)")
    assert "±" not in repr(reading)


def test_a_calibrated_reading_says_how_sure_it_is():
    compass = confident(make_compass(size=29))
    rep = compass.embed(torch.cat([spot(*range(0, 50, 10)), torch.zeros(1, 1, 29, 29)]))
    reading = compass.recover(rep)
    assert reading.sure.tolist() == [True] * 5 + [False]
    assert bool(reading.known.all())
    assert reading.probability.tolist() == pytest.approx([0.99] * 5 + [0.1], abs=1e-4)
    assert torch.equal(reading.unknown, ~reading.sure)
    assert "... 6 values; sure of 5)" in repr(reading)
    assert compass.recover(rep, sure=0.05).sure.all()
    assert not compass.recover(rep, sure=0.995).sure.any()
    strange = confident(make_compass(size=29), strangeness=1e3).recover(rep)
    assert strange.known.tolist() == [False] * 5 + [True]
    assert not strange.sure.any()


def test_a_representation_on_another_device_than_the_model_is_read_there():
    compass = confident(make_compass(size=29))
    rep = compass.embed(spot(0, 10))
    compass = compass.to("cpu").double()
    found = compass.recover(rep.to(torch.float16))
    assert found.sure.all()


def test_a_confidence_of_another_model_is_refused():
    compass = confident(make_compass())
    own_axis = compass.confidence
    with pytest.raises(DuetError, match="differences only: a reading of one image is neither right nor wrong"):
        make_compass(reference="relative").add_confidence(own_axis)
    with pytest.raises(DuetError, match="a confidence of 'rot360' does not fit"):
        make_compass(group="rot4").add_confidence(own_axis)
    with pytest.raises(DuetError, match="a confidence of 16 features does not fit a layout of 128"):
        random_encoder().add_confidence(own_axis)


def test_amounts_are_given_in_g_or_in_the_unit(encoder):
    rep, group = encoder.embed(torch.rand(4, 1, 28, 28)), GROUPS["rot360"]
    assert torch.equal(rep.shift(degrees=90).flat, rep.shift(by=0.25).flat)
    assert torch.equal(rep.shift(degrees=-90.0, action="fitted").flat, rep.shift(by=-0.25, action="fitted").flat)
    several = torch.tensor([10.0, -20.0, 30.0, 180.0])
    assert torch.equal(rep.shift(degrees=several).flat, rep.shift(by=several / 360).flat)
    assert torch.equal(rep.act(degrees=30).flat, rep.act(to=group.from_parameter(30)).flat)
    assert torch.allclose(rep.act(degrees=30).recover().g, torch.tensor(210 / 360), atol=1e-3)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda rep: rep.shift(by=1.5), "by counts in g and is at most 1, once through all of rot360; it is 1.5"),
        (lambda rep: rep.shift(by=torch.tensor([0.0, 0.0, -90.0])), "it is 90"),
        (lambda rep: rep.shift(degrees=400), "at most 1"),
        (lambda rep: rep.shift(), r"say how far with by= \(in g\) or degrees=, one of them"),
        (lambda rep: rep.shift(by=0.1, degrees=36), "one of them"),
        (lambda rep: rep.shift(turns=0.1), "not turns="),
        (lambda rep: rep.act(radians=0.1), r"with to= \(in g\) or degrees=, one of them; not radians="),
        (lambda rep: rep.shift(by=0.1, action="spectral"), "no spectral action; this model has fitted, prescribed"),
    ],
)
def test_an_amount_that_means_nothing_is_one_line(ask, message, encoder):
    with pytest.raises(DuetError, match=message) as caught:
        ask(encoder.embed(torch.rand(3, 1, 28, 28)))
    assert one_line(caught)


@pytest.mark.parametrize(
    "make",
    [
        own,
        random_encoder,
        lambda: own(["rot360", "scale"], Joint(2, [Axis("rot360", 4, VonMises()), Axis("scale", 4, Gaussian())])),
        lambda: random_encoder(method="simclr"),
        lambda: random_encoder(group=["rot360", "scale", "hflip"], layout="concatenated", bins=4, dim=96),
    ],
)
def test_what_is_printed_is_short_and_says_what_it_is(make):
    encoder = make()
    rep = encoder.representation(torch.zeros(7, encoder.layout.dim))
    for thing in (encoder, rep, rep[2:4]):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 120
        assert str(encoder.layout.dim) in repr(thing)
        assert all(axis.name in repr(thing) for axis in encoder.layout.axes)
    assert "7 x" in repr(rep)
    assert all(name in repr(encoder) for name in encoder.groups)


@pytest.mark.parametrize("space", ["flat", "content"])
def test_neighbours_are_those_of_a_slow_loop(space, encoder):
    rep = encoder.representation(torch.randn(12, 128))
    z = rep.flat if space == "flat" else rep.content
    found = rep.nearest(3, space)
    for i in range(12):
        cosines = {j: float(z[i] @ z[j] / (z[i].norm() * z[j].norm())) for j in range(12) if j != i}
        best = sorted(cosines, key=cosines.get, reverse=True)[:3]
        assert found.place[i].tolist() == best
        assert found.cosine[i].tolist() == pytest.approx([cosines[j] for j in best], abs=1e-5)
    for k in (0, 12):
        with pytest.raises(DuetError, match="12 images have 1 to 11 neighbours each"):
            rep.nearest(k)
    with pytest.raises(DuetError, match="'flat' or 'content', not 'group'"):
        rep.nearest(2, "group")


def test_a_plot_has_one_bar_a_bin_over_the_values_of_the_group():
    encoder = make_compass(size=29)
    rep = encoder.embed(spot(0, 90))
    figure = rep.plot(1)
    assert isinstance(figure, Figure)
    (axis,) = figure.axes
    bars = axis.patches
    assert len(bars) == 8
    assert [bar.get_height() for bar in bars] == pytest.approx(rep.marginal()[1].tolist(), abs=1e-6)
    centres = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    assert centres == pytest.approx(np.arange(-157.5, 180, 45).tolist())
    assert "90" in axis.get_title()
    assert rep.plot().axes[0].get_title() != axis.get_title()
    assert len(duet.Representation(rep.flat, rep.layout).plot(0).axes[0].patches) == 8  # no unit is known


class Dimming(Group):
    """A group of a script's own."""

    name = "dimming"
    unit = "factor"
    span = (1.0, 0.5)

    def transform(self, images, g, generator=None):
        return images * self.parameter(g).view(-1, 1, 1, 1)


def test_a_group_that_is_not_registered_serves_too():
    layout = Table(4, Axis("dimming", 8, Gaussian()))
    encoder = own([Dimming()], layout)
    reading = encoder.recover(encoder.embed(torch.rand(3, 1, 8, 8)))
    assert reading.unit == "factor"
    assert ((reading.value >= 0.5) & (reading.value <= 1.0)).all()
    assert (reading.spread > 0).all()  # though the span runs down


PLUGIN = """
    from pathlib import Path

    import torch
    from duet import register_group
    from duet.groups import Group

    Path(__file__).with_name("imported").touch()

    class Tint(Group):
        name = "tint"
        unit = "amount"

        def transform(self, images, g, generator=None):
            return images * (1 - g.view(-1, 1, 1, 1) / 2)

    register_group(Tint())

    def build(channels=3):
        torch.manual_seed(0)
        pool = torch.nn.AdaptiveAvgPool2d(4)
        return torch.nn.Sequential(pool, torch.nn.Flatten(), torch.nn.Linear(16 * channels, 32))
"""
SAVE = """
    import sys, torch, duet
    from duet.networks import build_backbone
    from duet.representation import Axis, Gaussian, Table, VonMises

    here = sys.argv[1]
    duet.import_plugin("paints")
    images = torch.linspace(0, 1, 2 * 64).view(2, 1, 8, 8)
    backbone = build_backbone("paints:build", channels=1)
    named = duet.Encoder(backbone, Table(4, Axis("rot360", 8, VonMises())), ["rot360"], image_size=8)
    named.save(f"{here}/named")
    tiny = build_backbone("tiny", channels=1)
    tinted = duet.Encoder(tiny, Table(16, Axis("tint", 8, Gaussian())), ["tint"], image_size=8)
    tinted.save(f"{here}/tinted")
    torch.save({"named": named.features(images), "tinted": tinted.features(images)}, f"{here}/features")
"""
LOAD = """
    import sys, torch, duet
    from pathlib import Path

    here = Path(sys.argv[1])
    images = torch.linspace(0, 1, 2 * 64).view(2, 1, 8, 8)
    for name in ("named", "tinted"):
        try:
            duet.load(here / name)
        except duet.DuetError as error:
            print(error)
    print("imported" if (here / "imported").exists() else "not imported", "paints" in sys.modules)
    duet.import_plugin("paints")
    for name, expected in torch.load(here / "features", weights_only=True).items():
        encoder = duet.load(here / name)
        print(torch.equal(encoder.features(images), expected), *encoder.groups)
"""


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """A folder with a model whose backbone, and one whose group, is of a module that lies beside them."""
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "paints.py").write_text(textwrap.dedent(PLUGIN))
    done = run(folder, "-c", textwrap.dedent(SAVE), folder)
    assert done.returncode == 0, done.stderr
    return folder


def run(folder, *arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True)


def test_what_a_model_needs_of_its_author_is_imported_by_its_user_only(strangers):
    (strangers / "imported").unlink()
    done = run(strangers, "-c", textwrap.dedent(LOAD), strangers)
    assert done.returncode == 0, done.stderr
    named, tinted, untouched, *loaded = done.stdout.splitlines()
    assert "paints:build" in named
    assert "--plugin paints" in named
    assert "duet.import_plugin('paints')" in named
    assert "needs paints" in tinted
    assert "--plugin paints" in tinted
    assert untouched == "not imported False"
    assert loaded == ["True rot360", "True tint"]


@pytest.mark.parametrize("model", ["named", "tinted"])
def test_the_command_takes_the_plugin_by_its_flag(model, strangers):
    Image.new("L", (8, 8), 90).save(strangers / "grey.png")
    embed = ("embed", "grey.png", "-o", "x.npz", "--model", f"./{model}")
    refused = warm.duet(*embed, folder=strangers)
    assert refused.returncode == 2
    assert "--plugin paints" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert warm.duet(*embed, "--plugin", "paints", folder=strangers).returncode == 0
    with np.load(strangers / "x.npz") as rows:
        assert rows["features"].shape == (1, 32 if model == "named" else 128)


def test_the_recipe_of_a_backbone_is_kept_by_name(tmp_path):
    encoder = duet.Encoder(build_backbone("tiny", channels=1, dim=64), Table(8, AXIS), ["rot360"], image_size=28)
    again = duet.load(encoder.save(tmp_path))
    assert again.backbone.recipe == {"name": "tiny", "channels": 1, "dim": 64}
    assert again.backbone.dim == 64
