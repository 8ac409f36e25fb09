"""A run on a disk that fills up: its last checkpoint is whole, and with space again it ends with the same bytes."""

import pytest

from duet import DuetError
from duet.model import Encoder
from duet.training import resume, train
from duet.training.loop import Loop
from tests.test_full_disk import files_in, room_for

from .test_run import contents


def test_a_run_goes_on_to_the_same_bytes_once_there_is_space(tmp_path, tiny, monkeypatch):
    values = {"quiet": True, "checkpoint_every": 4}
    whole, run = train(tiny(), tmp_path / "whole", **values), tmp_path / "run"
    real, kept = Loop._save, []

    def save(self, done):
        if self.checkpoint.exists():  # the first one is written, the second finds no space
            kept.append(files_in(run / "checkpoints"))
            with room_for(2000):
                real(self, done)
        real(self, done)

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_save", save)
        with pytest.raises(DuetError, match=rf"no space left .*last.safetensors; .* go on with: .*--resume {run}$"):
            train(tiny(), run, **values)
    assert files_in(run / "checkpoints") == kept[0]
    with monkeypatch.context() as patched:
        patched.setattr(Encoder, "save", lambda self, folder: _squeezed(self, folder))
        with pytest.raises(DuetError, match=r"no space left .*model.safetensors; .* go on with"):
            resume(run, **values)
    assert not (run / "model" / "config.json").exists()
    assert not list(run.rglob(".*"))
    assert resume(run, **values)
    assert contents(run) == contents(whole)


SAVE = Encoder.save


def _squeezed(encoder, folder):
    with room_for(2000):
        SAVE(encoder, folder)


def test_a_run_that_finds_no_space_at_all_leaves_no_folder(tmp_path, tiny):
    with room_for(10), pytest.raises(DuetError, match=r"No space|no space|File too large"):
        train(tiny(), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
