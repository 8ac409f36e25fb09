"""Cached views: what a trunk made of them, once; that training on them goes on anywhere; what a model then holds."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import duet
from duet.data import MemoryImages, open_images
from duet.error import DuetError
from duet.evaluation import Sizes
from duet.evaluation.rival import untrained
from duet.groups import Stack, rot360
from duet.methods import Method, Views
from duet.networks import build_trunk, runtime
from duet.networks.trunk import Trunk
from duet.training import cache, resume, train
from duet.training.cache import CachedViews, cache_views
from duet.training.experiment import build_method
from duet.training.step import step_seed

from .test_run import FILES, Killed, contents

MADE = runtime._made
SMALL = "tests.small_trunk:build"
ON_TRUNK = {
    **{"encoder": "small", "trunk": SMALL, "trunk_layers": ["5"], "grid": 4, "neck_width": 16, "dim": 32},
    **{"channels": 3, "cached_views": 3},
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where views are cached; one thread, so that runs repeat; torch alone, since an export takes seconds."""
    monkeypatch.setenv("DUET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "_made", lambda *_: None)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path / "cache"
    torch.set_num_threads(before)


@pytest.fixture
def trunk():
    return build_trunk(SMALL, ["5"], 4, (16, 16))


def pictures(count=40, seed=0, labels=True):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 16, 16), dtype=torch.uint8, generator=generator)
    return MemoryImages("noise", "train", pixels, torch.arange(count) % 4 if labels else None, tuple("abcd"))


def everything(cached):
    return np.array(cached._maps), cached._g, cached.labels


def test_the_cache_holds_what_the_trunk_makes_of_drawn_views(trunk, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 16)
    images, stack = pictures(), Stack.rrc_plus(["rot360", "vflip"])
    cached = cache_views(trunk, images, stack, 3, seed=7)
    assert (len(cached), cached.views, cached.shape) == (40, 3, (12, 4, 4))
    assert torch.equal(cached.labels, images.labels)
    generator = torch.Generator().manual_seed(step_seed(7, 16, 0))  # the second chunk
    for view in range(3):
        drawn = stack(images.tensors()[0][16:32], generator)
        with torch.no_grad():
            expected = trunk.maps(drawn.images)
        found = torch.stack([cached[row][view] for row in range(16, 32)])
        assert found.dtype == torch.float16
        assert torch.allclose(found.float(), expected, rtol=2e-3, atol=1e-3)
        for name in ("rot360", "vflip"):
            assert torch.equal(cached._g[name][16:32, view], drawn.g[name])


@pytest.mark.parametrize("count", [2, 3])
def test_a_batch_picks_different_views_of_every_image(trunk, count):
    cached = cache_views(trunk, pictures(), Stack.rrc_plus("rot360"), 4, seed=0)
    rows = torch.tensor([5, 0, 39])
    seen = set()
    for seed in range(20):
        views = cached.pick(rows, count, torch.Generator().manual_seed(seed))
        assert views.count == count
        assert views.images.dtype == torch.float32
        for place, (row, maps, g) in enumerate(zip(rows.repeat(count), views.images, views.g["rot360"], strict=True)):
            (which,) = [v for v in range(4) if cached._g["rot360"][row, v] == g]
            assert torch.equal(cached[int(row)][which].float(), maps)
            seen.add((int(row), which, place // 3))
        first, second = views.pairs(views.g["rot360"])
        assert (first != second).all()
    assert len(seen) == 3 * 4 * count  # every view of every image, in every place
    with pytest.raises(DuetError, match="asks for 5 views, and 4 are cached"):
        cached.pick(rows, 5, torch.Generator())


def test_standardised_maps_have_mean_0_and_spread_1(trunk):
    cached = cache_views(trunk, pictures(), Stack.rrc_plus("rot360"), 2, seed=0)
    mean, std = cached.statistics()
    maps = torch.from_numpy(np.array(cached._maps[:, 0])).double()
    assert torch.allclose(mean.double(), maps.mean((0, 2, 3)), rtol=1e-5)
    assert torch.allclose(std.double(), maps.transpose(0, 1).flatten(1).std(1, correction=0), rtol=1e-5)


def test_what_was_stopped_goes_on_to_the_same_values(trunk, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "CHUNK", 16)
    arguments = (trunk, pictures(), Stack.mild("rot360"), 3, 0)
    whole = everything(cache_views(*arguments, folder=tmp_path / "whole"))
    real, calls = Trunk.forward, [0]

    def forward(self, images):
        calls[0] += 1
        if calls[0] == 2:
            raise Killed
        return real(self, images)

    monkeypatch.setattr(Trunk, "forward", forward)
    with pytest.raises(Killed):
        cache_views(*arguments, folder=tmp_path / "cut")
    cut = everything(cache_views(*arguments, folder=tmp_path / "cut"))
    assert calls[0] == 4  # the first chunk was there already
    assert np.array_equal(whole[0], cut[0])
    assert torch.equal(whole[1]["rot360"], cut[1]["rot360"])
    assert torch.equal(whole[2], cut[2])
    cache_views(*arguments, folder=tmp_path / "cut")
    assert calls[0] == 4


def test_the_key_tells_weights_layers_images_seed_and_stack_apart(trunk):
    def key(trunk=trunk, images=None, stack=None, views=2, seed=0):
        return cache._key(trunk, images or pictures(), stack or Stack.rrc_plus("rot360"), views, seed)

    other = build_trunk(SMALL, ["2"], 4, (16, 16))
    weights = build_trunk(SMALL, ["5"], 4, (16, 16))
    weights.checksum = "another"
    keys = [
        *(key(), key(other), key(weights), key(images=pictures(seed=1)), key(images=pictures(labels=False))),
        *(key(views=3), key(seed=1), key(stack=Stack.rrc_plus("rot4")), key(stack=Stack.rrc_plus("rot360", (0.5, 1)))),
        *(key(stack=Stack.rrc_plus(rot360(corners="circle"))), key(build_trunk(SMALL, ["5"], 3, (16, 16)))),
        key(build_trunk(SMALL, ["5"], 4, (16, 16), resize=24)),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_a_full_disk_is_said_before_it_is_full(trunk, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(DuetError, match=r"need 0.0 GB and .* has 0.0: set DUET_CACHE to another folder, or"):
        cache_views(trunk, pictures(), Stack.rrc_plus("rot360"), 2, 0)


def test_what_cannot_be_read_is_left_out(trunk, tmp_path):
    for number in range(9):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(path)
    (tmp_path / "images" / "a" / "4.png").write_bytes(b"broken")
    images = open_images(tmp_path / "images", storage="stream", image_size=16, workers=0)
    cached = cache_views(trunk, images, Stack.rrc_plus("rot360"), 2, 0)
    assert len(cached) == len(images) - 1
    readable = torch.tensor([not name.endswith(b"4.png") for name in images.identities()])
    assert torch.equal(cached.labels, images.labels[readable])
    assert len(cached.skipped) == 1


@pytest.mark.parametrize(
    "changes",
    [{}, {"method": "simclr"}, {"reference": "relative"}, {"group": ["rot360", "scale"]}, {"neck": "grid"}],
    ids=str,
)
def test_every_kind_of_run_trains_on_cached_views(tmp_path, tiny, changes):
    run = train(tiny(**ON_TRUNK, **{"epochs": 1, **changes}), tmp_path / "run", quiet=True)
    encoder = duet.load(run)
    assert all((run / name).exists() for name in FILES)
    assert not [key for key in encoder.state_dict() if "trunk" in key]
    pixels = torch.rand(3, 3, 28, 28)
    assert encoder.embed(pixels).flat.shape == (3, 32)
    assert encoder.head.linear.out_features == 10
    assert torch.equal(encoder.backbone.trunk(pixels), build_trunk(SMALL, ["5"], 4, (28, 28))(pixels))


@pytest.mark.parametrize("method", ["duet", "simclr"])
def test_a_loss_on_maps_is_the_loss_through_the_trunk(tiny, method):
    """The same views as images and as cached maps: the same terms, but for the rounding to float16."""
    torch.manual_seed(0)
    made = build_method(tiny(**ON_TRUNK, method=method, dropout=0.0), image_size=(28, 28))
    pixels = open_images("digits", channels=3, subset=32).tensors()[0]
    drawn = made.draw_views(pixels, Stack.rrc_plus("rot360"), torch.Generator().manual_seed(0))
    maps = made.backbone.trunk(drawn.images).half().float()
    through, on_maps = made.losses(drawn), made.losses(Views(maps, drawn.g))
    assert set(through) == set(on_maps) == ({"content", "group"} if method == "duet" else {"content"})
    for name, term in through.items():
        assert float(on_maps[name].detach()) == pytest.approx(float(term.detach()), rel=2e-3)


@pytest.mark.parametrize(("every", "at", "fast"), [(1, 7, False), (4, 6, True), (None, 3, False)])
def test_a_run_cut_short_ends_with_the_same_files(tmp_path, tiny, monkeypatch, every, at, fast):
    if fast:
        monkeypatch.setattr(runtime, "_made", MADE)
    experiment = tiny(**ON_TRUNK)
    whole = train(experiment, tmp_path / "whole", quiet=True, checkpoint_every=every)
    real, count = CachedViews.pick, [0]

    def pick(self, *arguments):
        count[0] += 1
        if count[0] == at:
            raise Killed
        return real(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(CachedViews, "pick", pick)
        with pytest.raises(Killed):
            train(experiment, tmp_path / "cut", quiet=True, checkpoint_every=every)
    shutil.rmtree(tmp_path / "cache")  # the same views are found again
    assert resume(tmp_path / "cut", quiet=True, checkpoint_every=every)
    assert contents(tmp_path / "cut") == contents(whole)


def test_runs_share_their_views(tmp_path, tiny, monkeypatch, folder):
    train(tiny(**ON_TRUNK, epochs=1, action_pairs=0), tmp_path / "duet", quiet=True)
    (key,) = [path.name for path in folder.iterdir()]
    monkeypatch.setattr(cache, "_compute", lambda *_: pytest.fail("they are there"))
    train(tiny(**ON_TRUNK, epochs=1, action_pairs=0, method="simclr"), tmp_path / "simclr", quiet=True)
    assert [path.name for path in folder.iterdir()] == [key]


def test_a_method_with_views_of_its_own_sees_new_ones(tmp_path, tiny):
    essl = {**ON_TRUNK, "method": "essl", "epochs": 1}
    with pytest.raises(DuetError, match=r"essl draws views of its own, which cannot be cached: give --cached-views 0$"):
        train(tiny(**essl), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    run = train(tiny(**{**essl, "cached_views": 0}), tmp_path / "run", quiet=True)
    assert duet.load(run).provenance["recipe"]["views through the trunk"] == "new in every step"


def test_unfrozen_layers_are_trained_and_the_model_holds_them(tmp_path, tiny, monkeypatch, folder):
    seen = []
    real = Method.draw_views
    monkeypatch.setattr(Method, "draw_views", lambda self, *given: seen.append(1) or real(self, *given))
    run = train(tiny(**ON_TRUNK, epochs=1, unfreeze=["3", "4"]), tmp_path / "run", quiet=True)
    assert len(seen) == 5
    assert not folder.exists()
    network = duet.load(run).backbone.trunk.network
    fresh = build_trunk(SMALL, ["5"], 4, (28, 28)).network
    assert not torch.allclose(network[3].weight, fresh[3].weight, atol=1e-5)
    assert torch.equal(network[0].weight, fresh[0].weight)
    assert not torch.equal(network[4].running_mean, fresh[4].running_mean)
    assert torch.equal(network[1].running_mean, fresh[1].running_mean)


def test_a_tenth_is_kept_aside_and_calibrates_through_the_trunk(tmp_path, tiny):
    pixels, labels = open_images("digits", channels=3, subset=1200).tensors()
    digits = MemoryImages("some digits", "train", pixels, labels, tuple("0123456789"))
    experiment = tiny(**ON_TRUNK, epochs=1, batch_size=128, subset=None, warmup_epochs=0)
    run = train(experiment, tmp_path / "run", images=digits, quiet=True)
    encoder = duet.load(run)
    assert encoder.provenance["calibration"] == "on 120 images that were not trained on"
    assert encoder.recover(encoder.features(pixels[:50])).probability.shape == (50,)


def test_the_untrained_rival_is_a_fresh_neck_on_the_same_trunk(tmp_path, tiny):
    encoder = duet.load(train(tiny(**ON_TRUNK, epochs=1), tmp_path / "run", quiet=True))
    rival = untrained(encoder)
    pixels = torch.rand(4, 3, 28, 28)
    maps = encoder.backbone.trunk(pixels)
    torch.manual_seed(0)
    again = duet.networks.build_backbone(**encoder.backbone.recipe, image_size=(28, 28)).eval()
    again.normalise_by(encoder.backbone.mean.flatten(), encoder.backbone.std.flatten())
    with torch.no_grad():
        assert torch.allclose(rival.features(pixels), again(maps), atol=1e-6)
    assert not torch.allclose(rival.features(pixels), encoder.features(pixels))


def test_a_run_on_a_trunk_is_evaluated_beside_its_rivals(tmp_path, tiny):
    run = train(tiny(**ON_TRUNK, epochs=1, action_pairs=0), tmp_path / "run", quiet=True)
    sizes = Sizes(train=40, test=20, images=6, few=4, probe=40)
    result = duet.evaluate(run, ["recovery"], sizes=sizes, progress=False)["recovery"]
    assert set(result.rivals) == {"pixels", "untrained", "patches"}
    assert 0 <= result.scalars["median_error_degrees"] <= 180


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cached_views": 1}, "cached_views must be 2 or more, or 0 for none; it is 1"),
        ({"dropout": 1.0}, "dropout must lie in [0, 1); it is 1"),
        ({"grid": 0}, "grid must be above 0"),
        ({"neck": "nek"}, "neck cannot be 'nek'"),
        ({"trunk": None}, "trunk_layers, trunk_size and unfreeze are of a trunk; name one, such as --trunk lite0"),
        ({"channels": 1}, "a trunk takes images with 3 channels, grey ones too"),
    ],
)
def test_mistakes_are_one_line(tiny, changes, words):
    with pytest.raises(DuetError) as raised:
        tiny(**{**ON_TRUNK, **changes})
    assert words in str(raised.value)


def test_a_file_that_names_a_trunk_of_its_author_is_not_imported_for_it(tmp_path):
    path = Path(tmp_path / "config.yaml")
    path.write_text("trunk: someone.else:build\n")
    with pytest.raises(DuetError, match=r"needs someone.else:build, a module of its author's: .* --plugin someone"):
        duet.Experiment.from_yaml(path)
