"""A run notes on which images it is trained when it begins, and is resumed on no others."""

import json

import pytest
import torch

from duet.data import MemoryImages, open_images
from duet.data.identity import identity_of
from duet.error import DuetError
from duet.training import resume, train
from duet.training.trained_images import FILE, images_of_run, images_to_train

from .test_run import cut_at


def small(tiny, **changes):
    return tiny(epochs=1, action_pairs=0, encoder="tiny", **changes)


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_the_images_of_calibration_are_left_out(tmp_path, tiny, storage):
    experiment = small(tiny, subset=1000, calibrate=True, storage=storage)
    run = train(experiment, tmp_path / "run", quiet=True)
    noted = images_of_run(run)
    assert noted["count"] == 900
    assert noted == images_to_train(experiment)
    whole = identity_of(open_images("digits", subset=1000, channels=1))
    assert images_to_train(small(tiny, subset=1000, calibrate=False)) == whole != noted


def test_a_resumed_run_says_what_it_began_with_and_goes_on_with_nothing_else(tmp_path, tiny, monkeypatch):
    pixels = torch.randint(256, (160, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images, others = (MemoryImages("mine", "train", x, torch.arange(160) % 10) for x in (pixels, 255 - pixels))
    run, experiment = tmp_path / "run", small(tiny)
    cut_at(monkeypatch, 4, lambda: train(experiment, run, images=images, quiet=True, checkpoint_every=2))
    before = (run / FILE).read_bytes()
    assert json.loads(before) == identity_of(images)
    with pytest.raises(DuetError, match="began with 160 other images than there are now; restore them, or begin"):
        resume(run, images=others, quiet=True)
    assert (run / FILE).read_bytes() == before
    assert resume(run, images=images, quiet=True)
    assert (run / FILE).read_bytes() == before


def test_a_run_that_has_no_checkpoint_yet_begins_on_the_images_that_are_there(tmp_path, tiny, monkeypatch):
    pixels = torch.randint(256, (160, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images, others = (MemoryImages("mine", "train", x) for x in (pixels, 255 - pixels))
    run = tmp_path / "run"
    cut_at(monkeypatch, 2, lambda: train(small(tiny), run, images=images, quiet=True))
    assert images_of_run(run) == identity_of(images)
    assert resume(run, images=others, quiet=True)
    assert images_of_run(run) == identity_of(others)


def test_a_run_that_began_without_a_note_gets_none_later(tmp_path, tiny, monkeypatch):
    run = tmp_path / "run"
    cut_at(monkeypatch, 4, lambda: train(small(tiny), run, quiet=True, checkpoint_every=2))
    (run / FILE).unlink()
    assert resume(run, quiet=True)
    assert images_of_run(run) == {}


DAMAGE = (
    *("", "[]", "{", "[" * 900, "null", '{"count": 3}', '{"count": true, "fingerprint": "a"}'),
    *(
        '{"count": 3, "fingerprint": 4}',
        '{"count": 3, "fingerprint": "a", "more": 1}',
        '{"count": -1, "fingerprint": ""}',
    ),
)


@pytest.mark.parametrize("text", DAMAGE)
def test_a_damaged_note_is_unknown_and_said(tmp_path, caplog, text):
    (tmp_path / FILE).write_text(text)
    assert images_of_run(tmp_path) == {}
    assert "on which images the run was trained is not known" in caplog.text
