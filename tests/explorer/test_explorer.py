"""What the explorer computes and shows: pure functions of a model, a picture and a value of g."""

import copy
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from duet.cli import main
from duet.domain import Circle
from duet.explorer import drawing, neighbour, page, picture
from duet.explorer.model import Move, Moved, measure_spread, move, read, slider, start
from duet.explorer.neighbour import neighbours
from duet.explorer.opening import Explorer, open_explorer
from duet.explorer.picture import Picture, drop, pick
from duet.groups import GROUPS
from duet.installation import install_command
from duet.model import Encoder, Reading, fit_action, save_decoder
from duet.networks import build_backbone
from duet.networks.decoder import small_decoder
from duet.representation import ACTIONS, Axis, Gaussian, Table, VonMises
from duet.training.experiment import Experiment, build_layout, data_of
from duet.unit import in_unit
from tests.conftest import confident

HOSTILE = "<img src=x onerror=alert(1)>${alert(2)}{{ 7 * 7 }}"


def make_model(folder, decoder=True, **changes):
    """A run's folder with an untrained encoder on digits, a fitted action and, if asked for, an untrained decoder."""
    torch.manual_seed(0)
    settings = {"encoder": "tiny", "channels": 1, "data": "digits", "group": ("rot360",), **changes}
    experiment = Experiment(**settings)
    backbone = build_backbone("tiny", channels=experiment.channels).eval()
    images = torch.rand(40, experiment.channels, 28, 28)
    groups = {name: GROUPS[name] for name in experiment.group}
    with torch.inference_mode():
        actions = {name: fit_action(backbone, images, group, pairs=80) for name, group in groups.items()}
    layout = build_layout(experiment, backbone.dim)
    provenance = {"title": experiment.method, "data": data_of(experiment)}
    reference = experiment.reference
    encoder = Encoder(backbone, layout, groups, reference, actions, image_size=28, provenance=provenance)
    encoder.save(folder / "model")
    if decoder:
        for name in groups:
            save_decoder(small_decoder(backbone.dim, experiment.channels, (28, 28)), folder, name)
    return folder


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    return open_explorer(make_model(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    return lambda **changes: open_explorer(make_model(tmp_path_factory.mktemp("model"), **changes))


def turned(explorer, name, g, place=None):
    """A picture whose features say g as clearly as they can."""
    own = pick(explorer, 3)
    z = explorer.encoder.representation(own.z).act(name, to=g).flat
    return Picture(own.image, z, place)


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 40, 3), dtype=np.uint8)).save(path)
    return path


def test_a_run_is_opened_with_its_images_and_decoder(explorer):
    assert explorer.images.shape == (1000, 1, 28, 28)
    assert explorer.images.dtype == torch.uint8
    assert set(explorer.labels) == set("0123456789")
    assert list(explorer.decoders) == ["rot360"]
    assert explorer.missing == ""


def test_a_model_without_its_images_still_takes_yours(make, photo):
    alone = make(data="no-such-folder-of-images")
    assert len(alone.images) == 0
    assert "cannot be opened" in alone.missing
    picture = drop(alone, photo)
    assert move(alone, picture, "rot360", 30.0).truth.shape == (1, 28, 28)


def test_the_reading_is_that_of_the_representation(explorer):
    reading = read(explorer, pick(explorer, 3), "rot360")
    representation = explorer.encoder.embed(explorer.images[3:4])
    assert reading.masses == pytest.approx(representation.marginal().squeeze(0).tolist(), abs=1e-5)
    assert reading.spread.own == pytest.approx(float(representation.recover().spread) * 360, abs=0.01)
    clear = turned(explorer, "rot360", 0.3)
    assert read(explorer, clear, "rot360").parameter == pytest.approx(0.3 * 360 - 180, abs=0.01)


def test_what_is_spread_over_everything_is_unknown(explorer):
    flat = Picture(pick(explorer, 3).image, torch.zeros(1, 128))
    reading = read(explorer, flat, "rot360")
    assert reading.parameter is None
    assert reading.spread.own == pytest.approx(reading.spread.flat, abs=1e-3)
    page = drawing.show_reading(explorer, flat, "rot360", reading)
    assert 'class="duet-unknown">unknown</b>' in page
    assert "do not single out one value" in page
    assert "duet-line" not in page
    assert "duet-band" not in page
    known = turned(explorer, "rot360", 0.3)
    page = drawing.show_reading(explorer, known, "rot360", read(explorer, known, "rot360"))
    assert '<b id="duet-recovered">\N{MINUS SIGN}72°</b>' in page
    assert "unknown" not in page
    assert "duet-line" in page


@pytest.mark.parametrize(("name", "target"), [("rot360", VonMises(0.2)), ("scale", Gaussian(0.2))])
@pytest.mark.parametrize("bins", [3, 8, 16])
def test_the_spread_stands_between_the_best_and_that_of_equal_bins(name, target, bins):
    group, axis = GROUPS[name], Axis(name, bins, target)
    width = abs(group.span[1] - group.span[0])
    centres = (np.arange(bins) + 0.5) / bins
    for g in (0.1, 0.5, 0.77):
        best = target.masses(torch.tensor([g], dtype=torch.float64), bins)
        for share in np.linspace(0, 1, 11):  # from equal bins to a perfect answer
            estimate = target.estimate(share * best + (1 - share) / bins)
            value, spread = group.parameter(estimate.g), estimate.spread * width
            reading = Reading(estimate.g, value, spread, group.unit, torch.zeros(1, dtype=torch.bool))
            away = np.abs(centres - float(estimate.g))
            away = np.minimum(away, 1 - away) if name == "rot360" else away
            assert measure_spread(reading, axis, group).flat == pytest.approx(width * np.sqrt((away**2).mean()))
            if share == 1:
                by_hand = width * np.sqrt((best[0].numpy() * away**2).sum())
                assert measure_spread(reading, axis, group).sharp == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize(
    ("strangeness", "words"),
    [(0.0, "Right with a probability of 99\N{NO-BREAK SPACE}%."), (1e6, "another kind of image than the model knows")],
)
def test_a_calibrated_model_says_how_sure_it_is(explorer, strangeness, words):
    own = replace(explorer, encoder=confident(copy.deepcopy(explorer.encoder), strangeness))
    picture = turned(own, "rot360", 0.3)
    page = drawing.show_reading(own, picture, "rot360", read(own, picture, "rot360"))
    assert words in page
    assert ("unknown" in page) == (strangeness > 0)
    flat = replace(picture, z=torch.zeros_like(picture.z))
    page = drawing.show_reading(own, flat, "rot360", read(own, flat, "rot360"))
    assert "unknown</b>" in page
    assert "Not sure enough to tell" in page


def test_two_columns_on_a_circle_name_no_value(explorer):
    two = Axis("rot360", 2, VonMises(0.2))
    encoder = explorer.encoder
    blurred = Encoder(encoder.backbone, Table(64, two), encoder.groups, image_size=28, provenance=encoder.provenance)
    halves = Explorer(blurred, {}, explorer.images)
    picture = Picture(pick(halves, 0).image, pick(halves, 0).z)
    reading = read(halves, picture, "rot360")
    assert reading.parameter is None
    assert start(halves, picture, "rot360") == 0.5
    assert "cannot tell a value from its mirror image" in drawing.show_reading(halves, picture, "rot360", reading)


def test_without_a_move_nothing_is_off(explorer):
    picture = pick(explorer, 0)
    still = move(explorer, picture, "rot360", 0.0)
    assert torch.equal(still.truth, picture.image[0])
    assert still.ways["none"].distance == pytest.approx(0, abs=1e-4)
    turned = move(explorer, picture, "rot360", 90.0)
    assert torch.equal(turned.truth, picture.image[0].rot90(1, (1, 2)))
    assert turned.ways["none"].distance > 0.01


def test_distances_and_errors_are_those_of_the_definition(explorer):
    picture = pick(explorer, 5)
    found = move(explorer, picture, "rot360", 40.0)
    reached = explorer.encoder.features(found.truth[None])
    representation = explorer.encoder.representation(picture.z)
    g = (40 + 180) / 360
    by_hand = {
        "prescribed": representation.act(to=g).flat,
        "fitted": representation.shift("rot360", by=g - 0.5, action="fitted").flat,
        "none": picture.z,
    }
    assert set(found.ways) == set(by_hand)
    for way, z in by_hand.items():
        assert found.ways[way].distance == pytest.approx(float((z - reached).norm()), rel=1e-4)
        decoded = explorer.decoders["rot360"].images(z)[0]
        assert torch.allclose(found.ways[way].image, decoded, atol=1e-5)
        assert found.ways[way].error == pytest.approx(float((decoded - found.truth).square().mean()), rel=1e-3)


def test_a_dropped_picture_counts_from_where_it_was_read(explorer):
    picture = turned(explorer, "rot360", 0.3)
    assert start(explorer, picture, "rot360") == pytest.approx(0.3, abs=1e-4)
    there = move(explorer, picture, "rot360", 0.3 * 360 - 180)
    assert torch.allclose(there.truth, picture.image[0], atol=0.02)
    assert not there.unknown
    assert "counts as \N{MINUS SIGN}72°, as read off it" in drawing.show_move(explorer, picture, "rot360", -72.0, there)
    assert start(explorer, pick(explorer, 0), "rot360") == 0.5
    assert start(explorer, turned(explorer, "rot360", 0.3, place=3), "rot360") == 0.5


def test_a_dropped_picture_that_is_unknown_counts_as_it_is_and_says_so(explorer, photo):
    picture = drop(explorer, photo)
    assert read(explorer, picture, "rot360").parameter is None  # the model is untrained
    assert start(explorer, picture, "rot360") == 0.5
    found = move(explorer, picture, "rot360", 30.0)
    assert found.unknown
    page = drawing.show_move(explorer, picture, "rot360", 30.0, found)
    assert "The rotation of your picture is unknown, so it counts as 0°" in page
    assert not move(explorer, pick(explorer, 0), "rot360", 30.0).unknown


def test_a_finite_group_counts_from_its_nearest_element(make):
    quarter = make(group=("rot4",))
    assert start(quarter, turned(quarter, "rot4", 0.3), "rot4") == 0.375


def test_a_relative_model_is_shifted_and_worded_so(make, photo):
    relative = make(reference="relative")
    picture = drop(relative, photo)
    assert start(relative, picture, "rot360") == 0.5
    found = move(relative, picture, "rot360", 60.0)
    expected = relative.encoder.representation(picture.z).shift("rot360", by=60 / 360).flat
    reached = relative.encoder.features(found.truth[None])
    assert found.ways["prescribed"].distance == pytest.approx(float((expected - reached).norm()), rel=1e-4)
    assert "Moved by <b>60°</b>" in drawing.show_move(relative, picture, "rot360", 60.0, found)
    reading = drawing.show_reading(relative, picture, "rot360", read(relative, picture, "rot360"))
    assert "trained on differences" in reading
    assert "Peak of the rotation" in reading


def test_without_columns_the_fitted_action_remains(make):
    flat = make(method="simclr")
    picture = pick(flat, 0)
    assert read(flat, picture, "rot360") is None
    assert "no columns for rotation" in drawing.show_reading(flat, picture, "rot360", None)
    found = move(flat, picture, "rot360", 20.0)
    assert set(found.ways) == {"fitted", "none"}
    assert "there is no <var>" in drawing.show_move(flat, picture, "rot360", 20.0, found)


def test_without_a_decoder_the_rest_is_shown(make):
    blind = make(decoder=False)
    picture = pick(blind, 0)
    page = drawing.show_move(blind, picture, "rot360", 20.0, move(blind, picture, "rot360", 20.0))
    assert "has no decoder for rotation" in page
    assert "duet-static" not in page
    assert "duet-truth" in page
    assert "duet-distance-fitted" in page
    assert 'id="duet-fitted"' not in page


def test_neighbours_are_sorted_others_and_of_the_asked_space(explorer):
    picture = pick(explorer, 7)
    near = neighbours(explorer, picture, "full")
    cosines = [one.cosine for one in near]
    assert len(near) == neighbour.NEIGHBOURS
    assert cosines == sorted(cosines, reverse=True)
    assert not any(torch.equal(one.image, picture.image[0]) for one in near)
    z = explorer.encoder.features(explorer.images)
    by_hand = torch.nn.functional.cosine_similarity(z, picture.z)
    by_hand[7] = -1
    assert cosines[0] == pytest.approx(float(by_hand.max()), abs=1e-5)
    content = explorer.encoder.layout.content
    by_hand = torch.nn.functional.cosine_similarity(content(z), content(picture.z))
    by_hand[7] = -1
    assert neighbours(explorer, picture, "content")[0].cosine == pytest.approx(float(by_hand.max()), abs=1e-5)
    assert near[0].parameter is None
    assert len({round(one.parameter) for one in neighbours(explorer, picture, "content", "rot360")}) > 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read as an image: empty file."),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image of a known format"),
        (b"%PDF-1.7", "not an image"),
        (b"\x89PNG\r\n\x1a\n" + b"0" * 50, "cannot be read as an image"),
    ],
)
def test_what_is_not_an_image_is_refused_with_a_sentence(explorer, tmp_path, content, sentence):
    path = tmp_path / "file.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        drop(explorer, path)


def test_absurd_sizes_are_refused_without_decoding(explorer, tmp_path, monkeypatch):
    Image.new("1", (20_000, 20_000)).save(tmp_path / "wide.png")
    with pytest.raises(ValueError, match=r"too many pixels|20000 x 20000"):
        drop(explorer, tmp_path / "wide.png")
    Image.new("1", (8000, 6000)).save(tmp_path / "large.png")
    with pytest.raises(ValueError, match="8000 x 6000 pixels; at most 40 million"):
        drop(explorer, tmp_path / "large.png")
    monkeypatch.setattr(picture, "LARGEST_FILE", 1_000)
    (tmp_path / "heavy.png").write_bytes(b"0" * 2_000_000)
    with pytest.raises(ValueError, match="The file has 2 MB"):
        drop(explorer, tmp_path / "heavy.png")


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_a_slider_runs_over_what_the_group_knows(name):
    group = GROUPS[name]
    low, high, step, first = slider(group)
    assert min(group.span) <= low <= first <= high <= max(group.span)
    assert 0 < step <= high - low
    assert first != pytest.approx(float(group.parameter(group.identity)))
    if group.elements is not None:
        on_the_way = np.arange(low, high + step / 2, step)
        assert np.allclose(on_the_way, sorted(float(group.parameter(g)) for g in group.elements))


def test_words_of_a_value():
    assert in_unit(-12.4, "degrees", 0) == "\N{MINUS SIGN}12°"
    assert in_unit(-0.2, "degrees", 0) == "0°"
    assert in_unit(1.25, "factor") == "1.25 factor"


def test_the_spread_wraps_on_the_circle():
    assert Circle().pieces(-10, 50, 480) == [(0.0, 50), (470, 480)]
    assert Circle().pieces(440, 500, 480) == [(440, 480), (0.0, 20)]
    assert Circle().pieces(-300, 300, 480) == [(0.0, 480)]


def test_a_strangers_class_names_stay_text(explorer):
    named = Explorer(explorer.encoder, explorer.decoders, explorer.images, (HOSTILE,) * 1000, run=HOSTILE)
    picture = pick(named, 0)
    pages = drawing.show_head(named)
    pages += drawing.show_reading(named, picture, "rot360", read(named, picture, "rot360"))
    pages += drawing.show_neighbours(named, picture, "rot360", {"full": neighbours(named, picture, "full")})
    pages += drawing.show_notice(HOSTILE) + drawing.show_empty(HOSTILE)
    assert "<img src=x" not in pages
    assert pages.count("&lt;img src=x") == 4 + 2 * neighbour.NEIGHBOURS


def test_the_title_names_the_run_its_groups_and_its_data(make, tmp_path):
    opened = open_explorer(make_model(tmp_path / "mine", decoder=False))
    assert opened.title == "mine: rotation of digits"
    assert open_explorer(tmp_path / "mine" / "model").title == "mine: rotation of digits"
    assert "<h1>mine: rotation of digits</h1>" in drawing.show_head(opened)
    both = make(group=("rot360", "scale"), layout="concatenated", data="/photos/of/birds")
    assert both.title.endswith(": rotation and scale of birds")
    encoder = Encoder(opened.encoder.backbone, opened.encoder.layout, ["rot360"], image_size=28)
    assert Explorer(encoder, {}, opened.images).title == "A model: rotation"


def test_the_page_speaks_of_rotation_not_of_rot360(explorer):
    own = pick(explorer, 0)
    words = "".join(page._all(explorer, own, "rot360", 45.0, True)) + drawing.show_head(explorer)
    words += page._slider(explorer, "rot360")["label"] + str(page._among(explorer, "rot360")["choices"])
    assert "rotation" in words
    assert "rot360" not in words


def test_every_action_that_a_model_may_have_is_shown_in_plain_words(explorer):
    own = pick(explorer, 0)
    kinds = [*(action.name for action in ACTIONS), "none"]
    ways = {kind: Moved(1.0 + i, own.image[0], 0.1, False, False) for i, kind in enumerate(kinds)}
    found = drawing.show_move(explorer, own, "rot360", 45.0, Move(own.image[0], 0.0, ways, True, False))
    for action in ACTIONS:
        assert action.meaning
        assert action.meaning in found
        assert f'id="duet-distance-{action.name}"' in found
    assert len({drawing.WAYS[kind].tint for kind in kinds}) == len(kinds)
    assert f"--duet-ways:{len(kinds) + 1}" in found


def test_static_says_why_it_is_static(explorer):
    digits = open_explorer("digits-rot360")
    own = pick(digits, 0)
    good = move(digits, own, "rot360", 60.0)
    assert good.redrawn
    assert not good.ways["fitted"].astray
    assert "static" not in drawing.show_move(digits, own, "rot360", 60.0, good)
    image = torch.full((1, 1, 28, 28), 0.5)
    grey = Picture(image, digits.encoder.features(image))
    found = move(digits, grey, "rot360", 60.0)
    assert not found.redrawn
    words = drawing.show_move(digits, grey, "rot360", 60.0, found)
    assert "It learned from digits only" in words
    untrained = move(explorer, pick(explorer, 0), "rot360", 60.0)
    words = drawing.show_move(explorer, pick(explorer, 0), "rot360", 60.0, untrained)
    assert "It has not learned to draw yet" in words
    zero = pick(digits, 10)
    found = move(digits, zero, "rot360", 45.0)
    assert found.ways["prescribed"].astray
    assert not found.ways["prescribed"].static  # off, but drawn well
    words = drawing.show_move(digits, zero, "rot360", 45.0, found)
    assert words.count("farther off than not moved<") == 1
    moves = (move(digits, pick(digits, place), "rot360", 180.0) for place in range(60))
    lost = next(found for found in moves if found.ways["prescribed"].static)
    assert lost.ways["prescribed"].distance > lost.ways["none"].distance
    assert lost.ways["prescribed"].error >= float(lost.truth.var(correction=0))
    words = drawing.show_move(digits, own, "rot360", 180.0, lost)
    assert words.count("where the decoder has never seen features: its picture means nothing") == 1


def test_a_way_is_astray_when_it_ends_farther_off_than_no_move(explorer):
    found = move(explorer, pick(explorer, 5), "rot360", 90.0)
    none = found.ways["none"].distance
    assert found.ways["prescribed"].distance > none  # the model is untrained
    assert found.ways["prescribed"].astray
    assert not found.ways["none"].astray
    assert not any(way.astray for way in move(explorer, pick(explorer, 5), "rot360", 0.0).ways.values())


def test_an_answer_computes_the_features_of_one_image(explorer):
    picture = pick(explorer, 0)
    page._all(explorer, picture, "rot360", 3.0, True)  # the first one computes those of all test images
    computed = []
    hook = explorer.encoder.backbone.register_forward_pre_hook(lambda _, images: computed.append(len(images[0])))
    with hook:
        page._moved(explorer, picture, "rot360", 33.0)
        page._all(explorer, picture, "rot360", 3.0, True)
    assert computed == [1, 1]


def test_several_groups_share_a_page(make):
    both = make(group=("rot360", "scale"), layout="concatenated")
    picture = pick(both, 0)
    for name in ("rot360", "scale"):
        assert set(move(both, picture, name, slider(both.group(name)).first).ways) == {"none", "prescribed", "fitted"}
        assert read(both, picture, name) is not None


def test_without_gradio_the_command_says_what_to_install(tmp_path):
    make_model(tmp_path, decoder=False)
    code = "import sys; sys.modules['gradio'] = None; from duet.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "explore", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"duet: the explorer needs gradio: {install_command('explore')}"]


def test_a_port_that_is_taken_is_one_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("gradio")
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))  # undone afterwards
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["explore", str(make_model(tmp_path)), "--no-browser", "--port", str(port)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"duet: port {port} is not free; choose another with --port"


def test_a_wrong_run_is_one_line(tmp_path, capsys):
    pytest.importorskip("gradio")
    assert main(["explore", str(tmp_path), "--no-browser"]) == 2
    assert "no model in" in capsys.readouterr().err
