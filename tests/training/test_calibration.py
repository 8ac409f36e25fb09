"""The tenth that a run keeps aside: never trained on, the same for every method, and said in the model."""

import json

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import duet
from duet import Experiment
from duet.data import MemoryImages, open_images
from duet.methods import Duet
from duet.report import write_report
from duet.training import resume, train
from duet.training.calibration import keep_aside, split_in_words

SMALL = {"epochs": 1, "subset": None, "batch_size": 128, "encoder": "tiny", "action_pairs": 100}


@pytest.fixture(scope="module")
def digits():
    """1,200 digits, enough for a tenth to calibrate."""
    pixels, labels = open_images("digits", channels=1, subset=1200).tensors()
    return MemoryImages("some digits", "train", pixels, labels, tuple("0123456789"))


@pytest.fixture
def seen(monkeypatch):
    """Every image that was trained on."""
    real, found = Duet.draw_views, set()

    def draw_views(self, images, *arguments):
        found.update(bytes(image.numpy()) for image in images)
        return real(self, images, *arguments)

    monkeypatch.setattr(Duet, "draw_views", draw_views)
    return found


def bytes_of(images):
    return {bytes(image.numpy()) for image in images.tensors()[0]}


def test_a_tenth_is_never_trained_on_and_calibrates(tmp_path, tiny, digits, seen):
    kept = keep_aside(digits, True, 128)
    assert (len(kept.trained), len(kept.aside)) == (1080, 120)
    assert kept.aside.labels.bincount().tolist() == [12] * 10
    run = train(tiny(**SMALL, warmup_epochs=0), tmp_path / "run", images=digits, quiet=True)
    assert seen
    assert seen <= bytes_of(kept.trained)
    assert not seen & (bytes_of(kept.aside) - bytes_of(kept.trained))
    encoder = duet.load(run)
    assert encoder.confidence.axes == ("rot360",)
    assert encoder.provenance["calibration"] == "on 120 images that were not trained on"
    assert "| calibration | on 120 images that were not trained on |" in (run / "model" / "README.md").read_text()
    assert torch.equal(encoder.backbone.mean.flatten(), kept.trained.statistics()[0])
    z = encoder.features(kept.aside.tensors()[0])
    assert float(encoder.recover(z).known.float().mean()) > 0.8
    noise = encoder.recover(encoder.features(torch.rand(100, 1, 28, 28)))
    assert float(noise.known.float().mean()) < 0.5
    again = train(tiny(**SMALL, warmup_epochs=0), tmp_path / "again", images=digits, quiet=True)
    files = [(folder / "model" / "model.safetensors").read_bytes() for folder in (run, again)]
    assert files[0] == files[1]


def test_a_test_image_is_neither_trained_on_nor_calibrated_with():
    kept = keep_aside(open_images("digits", channels=1), True, 128)
    test = bytes_of(open_images("digits", "test", channels=1))
    assert not test & bytes_of(kept.aside)
    assert not bytes_of(kept.aside) & bytes_of(kept.trained)
    assert (len(kept.trained), len(kept.aside)) == (3600, 400)


def test_the_tenth_does_not_depend_on_seed_method_or_storage(tmp_path):
    """Processes and runs that are compared, and a run that goes on elsewhere, all leave out the same images."""
    parts = [
        keep_aside(open_images("digits", channels=1, subset=1500, seed=3, storage=storage, workers=0), True, 64)
        for storage in ("memory", "stream")
    ]
    assert list(parts[0].aside.identities()) == list(parts[1].aside.identities())
    assert bytes_of(parts[0].aside) == bytes_of(parts[1].aside)


@pytest.mark.parametrize(
    ("count", "calibrate", "batch", "words"),
    [
        (160, True, 32, "none: a tenth of 160 images is 16, and fewer than 100 tell too little"),
        (1200, True, 1100, "none: the 1080 images left would make no batch of 1100"),
        (1200, False, 32, "none: all images were trained on"),
    ],
)
def test_where_none_is_kept_aside_it_says_why(digits, count, calibrate, batch, words, caplog):
    images = digits.part(torch.arange(count))
    with caplog.at_level("INFO"):
        kept = keep_aside(images, calibrate, batch)
    assert kept == (images, None, words)
    assert ("will not tell how sure it is" in caplog.text) == calibrate


def test_a_set_that_is_too_small_makes_a_model_that_says_so(tmp_path, tiny):
    run = train(tiny(epochs=1), tmp_path / "run", quiet=True)
    assert duet.load(run).confidence is None
    assert "fewer than 100" in duet.load(run).provenance["calibration"]


def test_a_method_without_a_reading_has_no_confidence_and_trains_on_the_same_images(tmp_path, tiny, digits):
    run = train(tiny(**SMALL, warmup_epochs=0, method="simclr"), tmp_path / "run", images=digits, quiet=True)
    encoder = duet.load(run)
    assert encoder.confidence is None
    assert encoder.provenance["calibration"].startswith("none: no reading to judge; 120 images")
    assert encoder.provenance["split"] == "1,080 train / 120 calibration (--no-calibrate to change)"


@pytest.mark.parametrize("changes", [{"reference": "relative"}, {"options": {"reference": "relative"}}])
def test_a_model_of_differences_keeps_nothing_aside_that_it_will_not_use(tmp_path, tiny, digits, seen, changes):
    experiment = tiny(**{**SMALL, "batch_size": 120}, warmup_epochs=0, **changes)
    run = train(experiment, tmp_path / "run", images=digits, quiet=True)
    assert seen == bytes_of(digits)
    encoder = duet.load(run)
    assert encoder.confidence is None
    assert encoder.provenance["calibration"].startswith("none: a model of differences has no reading to judge")
    assert encoder.provenance["split"] == "1,200 train"


def test_a_run_of_differences_that_kept_a_tenth_aside_before_goes_on_without_it(tmp_path, tiny, digits, monkeypatch):
    experiment = tiny(**{**SMALL, "epochs": 2}, warmup_epochs=0, reference="relative")
    with monkeypatch.context() as former:
        former.setattr(Experiment, "calibrates", property(lambda self: self.calibrate))
        former.setattr("duet.training.run.finish", stop)
        with pytest.raises(KeyboardInterrupt):
            train(experiment, tmp_path / "run", images=digits, quiet=True, checkpoint_every=1)
    assert json.loads((tmp_path / "run" / "images.json").read_text())["count"] == 1080
    assert resume(tmp_path / "run", images=digits, quiet=True)
    assert duet.load(tmp_path / "run").provenance["calibration"].startswith("none: no reading to judge; 120 images")


def stop(*_, **__):
    raise KeyboardInterrupt


def test_the_split_of_a_set_is_announced_with_its_numbers(tmp_path, tiny, caplog):
    with caplog.at_level("INFO"):
        run = train(tiny(**{**SMALL, "subset": 1200}, warmup_epochs=0), tmp_path / "run", quiet=True)
    told = "1,080 train / 120 calibration / 1,000 test (held out; --split and --no-calibrate to change)"
    assert f"digits: {told}" in caplog.text
    assert duet.load(run).provenance["split"] == told
    assert len(open_images("digits", "test")) == 1000
    assert told in write_report([run], tmp_path / "report.html").read_text()


def test_a_set_with_a_test_part_of_its_own_holds_nothing_out(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    for number, part in enumerate(["train"] * 20 + ["test"] * 10):
        (tmp_path / part).mkdir(exist_ok=True)
        Image.fromarray(pixels[number]).save(tmp_path / part / f"{number}.png")
    images = open_images(tmp_path)
    assert images.held_out is None
    assert split_in_words(images, keep_aside(images, True, 4)) == "20 train"
    with pytest.raises(duet.DuetError, match="no split 'all'; it has test, train, and nothing is held out of train"):
        open_images(tmp_path, "all")


def test_what_a_model_is_tested_on_is_not_trained_on(tiny):
    with pytest.raises(duet.DuetError, match="split cannot be 'test'"):
        tiny(split="test")


def test_without_calibration_all_images_are_trained_on(tmp_path, tiny, digits, seen):
    experiment = tiny(**{**SMALL, "batch_size": 120, "calibrate": False}, warmup_epochs=0)
    run = train(experiment, tmp_path / "run", images=digits, quiet=True)
    assert seen == bytes_of(digits)
    assert duet.load(run).confidence is None
    assert json.loads((run / "model" / "config.json").read_text())["confidence"] is None


def test_the_paper_trains_on_all_images():
    for name in ("paper", "paper-full-stack"):
        assert duet.Experiment.preset(name).calibrate is False
    for name in ("demo", "cpu"):
        assert duet.Experiment.preset(name).calibrate is True


class Killed(BaseException):
    pass


def test_a_run_of_before_there_was_calibration_goes_on_with_all_its_images(tmp_path, tiny, digits, monkeypatch):
    experiment = tiny(**{**SMALL, "epochs": 2, "calibrate": False})
    whole = train(experiment, tmp_path / "whole", images=digits, quiet=True, checkpoint_every=3)
    with monkeypatch.context() as patched:
        patched.setattr(Duet, "after_step", lambda self, step: (_ for _ in ()).throw(Killed) if step == 5 else None)
        with pytest.raises(Killed):
            train(experiment, tmp_path / "cut", images=digits, quiet=True, checkpoint_every=3)
    config = tmp_path / "cut" / "config.yaml"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if not line.startswith("calibrate")))
    assert "calibrate" not in yaml.safe_load(config.read_text())
    assert resume(tmp_path / "cut", images=digits, quiet=True, checkpoint_every=3)
    files = [(folder / "model" / "model.safetensors").read_bytes() for folder in (whole, tmp_path / "cut")]
    assert files[0] == files[1]


def test_a_calibrated_run_cut_short_ends_with_the_same_files(tmp_path, tiny, digits, monkeypatch):
    experiment = tiny(**{**SMALL, "epochs": 2})
    whole = train(experiment, tmp_path / "whole", images=digits, quiet=True, checkpoint_every=3)
    with monkeypatch.context() as patched:
        patched.setattr(Duet, "after_step", lambda self, step: (_ for _ in ()).throw(Killed) if step == 5 else None)
        with pytest.raises(Killed):
            train(experiment, tmp_path / "cut", images=digits, quiet=True, checkpoint_every=3)
    assert resume(tmp_path / "cut", images=digits, quiet=True, checkpoint_every=3)
    for name in ("model/model.safetensors", "model/config.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_with_turns_is_calibrated_for_them_and_for_one_look(tmp_path, tiny, digits, monkeypatch):
    looks = []
    real = duet.Encoder.features

    def features(self, images, batch=512):
        looks.append(self.turns)
        return real(self, images, batch)

    monkeypatch.setattr(duet.Encoder, "features", features)
    run = train(tiny(**SMALL, warmup_epochs=0, turns=2), tmp_path / "run", images=digits, quiet=True)
    assert (run / "config.yaml").read_text().count("turns: 2  #") == 1
    encoder = duet.load(run)
    assert encoder.turns == 2
    assert sorted(encoder.confidences) == [1, 2]
    assert set(looks) == {1, 2}
    assert looks[0] == 2  # of the fitted action
    aside = keep_aside(digits, True, 128).aside.tensors()[0]
    for turns in (1, 2):
        encoder.turns = turns
        assert float(encoder.recover(real(encoder, aside)).known.float().mean()) > 0.8
    one, two = (encoder.confidences[turns].whitening for turns in (1, 2))
    assert not torch.equal(one, two)


def test_turns_that_a_run_cannot_have_are_refused_before_it_trains(tmp_path, tiny, digits):
    wide = MemoryImages("wide", "train", digits.tensors()[0][:, :, :20], digits.labels, digits.classes)
    with pytest.raises(duet.DuetError, match=r"^4 turns need square images, and these are 28 x 20; give turns 1$"):
        train(tiny(**SMALL, warmup_epochs=0, turns=4), tmp_path / "run", images=wide, quiet=True)
    assert not (tmp_path / "run").exists()
