"""Signs that a run does not learn, said early and again at the end."""

import logging

import pytest
import torch
from torch import nn

from duet.networks import wrap
from duet.training import resume, train, watch
from duet.training.watch import PATIENCE, Losses, Watch, effective_rank


def windows(levels, noise=1.0, steps=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [level + noise * torch.randn(steps, generator=generator) for level in levels]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("levels", [[40, 35, 30, 29, 28.5, 28, 28, 28], [40] * 8, [0.0] * 8, [-1, -2, -3, -3, -3]])
def test_a_loss_that_falls_or_stays_does_not_rise(levels, seed):
    losses = Losses()
    risen = [losses.rises(window) for window in windows(levels, seed=seed)]
    assert not any(all(risen[i : i + PATIENCE]) for i in range(len(risen)))


@pytest.mark.parametrize("levels", [[41, 57, 63, 65, 64], [40, 20, 10, 35, 36, 35], [-1, -3, 5, 6, 6]])
def test_a_loss_that_goes_up_rises(levels):
    losses = Losses()
    assert all([losses.rises(window) for window in windows(levels)][-3:])


def test_half_of_what_was_gained_may_be_lost():
    losses = Losses()
    assert [losses.rises(torch.full((8,), level)) for level in (40.0, 10.0, 24.0, 26.0)] == [False, False, False, True]


def test_a_run_that_goes_on_knows_what_its_loss_was():
    losses = Losses()
    for before in (40.0, 20.0, 10.0):
        losses.begin(before)
    assert not losses.rises(torch.full((8,), 20.0))
    assert losses.rises(torch.full((8,), 26.0))


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_the_effective_rank_is_that_of_the_covariances_eigenvalues(shape):
    z = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).cumsum(1) + 5
    eigenvalues = torch.linalg.eigvalsh(torch.cov(z.T, correction=0)).clamp(min=0)
    rank, variance = effective_rank(z)
    assert rank == pytest.approx(float(eigenvalues.sum() ** 2 / eigenvalues.square().sum()), rel=1e-4)
    assert variance == pytest.approx(float(z.var(0, correction=0).mean()), rel=1e-4)


def test_the_effective_rank_of_known_features():
    assert effective_rank(torch.ones(6, 4)) == (0.0, 0.0)
    assert effective_rank(torch.arange(6.0)[:, None].repeat(1, 4))[0] == pytest.approx(1)
    assert effective_rank(torch.cat([torch.eye(4), -torch.eye(4)]))[0] == pytest.approx(4)


def signs(watching, losses, z, times=PATIENCE):
    for _ in range(times):
        for sign, text in watching._signs(torch.full((8,), losses), z, 8).items():
            watching._note(sign, text)


def test_a_sign_is_said_once_and_again_at_the_end(tmp_path, caplog):
    watching = Watch(tmp_path)
    z = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    signs(watching, 1.0, z)
    assert not caplog.records
    signs(watching, 1e9, z, PATIENCE - 1)
    assert not caplog.records
    signs(watching, 1e9, z)
    assert [record.message.split(",")[0] for record in caplog.records] == [
        "the loss rises: 1e+09 about step 8",
        "the loss is huge",
    ]
    watching.say_again()
    assert caplog.text.count("did not go well, though its model is saved: the loss") == 2


def test_what_has_mended_itself_is_not_said_again(tmp_path, caplog):
    watching = Watch(tmp_path)
    signs(watching, 1.0, torch.ones(64, 16))
    assert "the features have collapsed: at step 8 their variance is 0" in caplog.text
    signs(watching, 1.0, torch.randn(64, 16, generator=torch.Generator().manual_seed(0)))
    caplog.clear()
    watching.say_again()
    assert not caplog.records


def test_a_learning_rate_of_100_is_said_to_fail(tmp_path, tiny, monkeypatch, caplog):
    monkeypatch.setattr(watch, "SHORTEST", 3)
    options = {"epochs": 6, "subset": 96, "encoder": "tiny", "action_pairs": 0}
    train(tiny(**options), tmp_path / "well", quiet=True)
    assert "the loss" not in caplog.text
    train(tiny(**options, lr=100.0), tmp_path / "run", quiet=True)
    said = [record.message for record in caplog.records if "the loss rises" in record.message]
    assert len(said) == 2
    assert "a lower --lr than 100 often helps" in said[0]
    assert said[1].startswith("this training did not go well, though its model is saved: the loss rises")
    caplog.clear()
    assert resume(tmp_path / "run", epochs=9, quiet=True)  # what was lost before is known
    assert "this training did not go well" in caplog.text


class Brightness(nn.Module):
    """One number of an image, sixteen times."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images):
        return (self.scale * images.mean((1, 2, 3))).unsqueeze(1).repeat(1, 16)


def test_features_that_have_collapsed_are_said(tmp_path, tiny, monkeypatch, caplog):
    monkeypatch.setattr(watch, "SHORTEST", 2)
    backbone = wrap(Brightness(), channels=1, width=16)
    with caplog.at_level(logging.WARNING):
        train(tiny(epochs=2, action_pairs=0), tmp_path / "run", backbone=backbone, quiet=True)
    said = [record.message for record in caplog.records if "the features have collapsed" in record.message]
    assert len(said) == 2
    assert "16 of them vary as 1.0 would" in said[0]
