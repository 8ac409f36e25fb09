"""OnlineEquivariance in a plain Lightning loop around somebody's own module."""

import random

import lightning as L
import numpy as np
import pytest
import torch
from torch import nn

from duet.callback import OnlineEquivariance
from duet.groups import GROUPS
from duet.metrics import EquivarianceSpectrum

IMAGES = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))


class Noise(nn.Module):
    """Draws from every generator, in evaluation mode too."""

    def forward(self, x):
        return x + 1e-9 * (torch.rand_like(x) + np.random.rand() + random.random())  # noqa: NPY002


class Theirs(L.LightningModule):
    """A module that draws random numbers in its steps and keeps a part frozen in evaluation mode."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Dropout(0.3), Noise())
        self.frozen = nn.BatchNorm1d(12).eval()
        self.head = nn.Linear(12, 3)
        self.seen = []

    def training_step(self, batch, step):
        (images,) = batch
        loss = self.head(self.frozen(self.encoder(images))).square().mean() + torch.rand(())
        self.log("loss", loss)
        return loss

    def on_train_epoch_start(self):
        parts = self.encoder, self.encoder[2], self.head, self.frozen
        self.seen.append([part.training for part in parts])
        self.draws = (float(torch.rand(())), float(np.random.rand()), random.random())  # noqa: NPY002
        self.seen.append(self.draws)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Listener(L.pytorch.loggers.logger.DummyLogger):
    """A logger that remembers."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append(dict(metrics))


def fit(callbacks=(), epochs=4, module=None, **options):
    L.seed_everything(1, verbose=False)
    module = module or Theirs()
    logger = Listener()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(IMAGES), batch_size=20, shuffle=True)
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=logger,
        callbacks=list(callbacks),
        log_every_n_steps=1,
        **{"enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False, **options},
    )
    trainer.fit(module, loader)
    return module, logger, trainer


def test_every_k_epochs_it_logs_the_spectrum_of_the_encoder():
    module, logger, trainer = fit([OnlineEquivariance(IMAGES, "rot360", every=2)])
    rows = [row for row in logger.rows if "equivariance/invariant_dimensions" in row]
    assert [row["epoch"] for row in rows] == [1, 3]
    assert "equivariance/median_difference_error_degrees" in trainer.callback_metrics
    # By hand, with the same draws: what was logged last is the trained encoder's.
    rows = torch.arange(40).repeat_interleave(4)
    g = GROUPS["rot360"].sample(160, torch.Generator().manual_seed(0))
    with torch.no_grad():
        z = module.encoder.eval()(GROUPS["rot360"].apply(IMAGES[rows], g))
    metric = EquivarianceSpectrum("rot360")
    metric.update(z, rows, g)
    for name, value in metric.compute().items():
        assert float(trainer.callback_metrics[f"equivariance/{name}"]) == pytest.approx(value, abs=1e-4)


def test_the_training_does_not_notice():
    alone, _, _ = fit()
    watched, _, _ = fit([OnlineEquivariance(IMAGES, "rot360")])
    assert alone.seen == watched.seen
    for ours, theirs in zip(watched.state_dict().values(), alone.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(watched.parameters(), alone.parameters(), strict=True):
        assert ours.requires_grad == theirs.requires_grad
        assert (ours.grad is None) == (theirs.grad is None)


def test_a_function_of_the_module_and_a_dotted_name():
    calls = []

    def features(module, images):
        calls.append((module.training, torch.is_grad_enabled(), len(images)))
        return module.encoder[:2](images)

    _, logger, _ = fit([OnlineEquivariance(IMAGES, "rot4", features, views=3, batch=50)], epochs=1)
    assert calls == [(False, False, 50), (False, False, 50), (False, False, 20)]
    assert any("equivariance/difference_accuracy" in row for row in logger.rows)
    module = Theirs()
    module.model = nn.ModuleDict({"backbone": module.encoder})
    fit([OnlineEquivariance(IMAGES, "rot360", "model.backbone")], epochs=1, module=module)


def test_in_mixed_precision():
    _, logger, _ = fit([OnlineEquivariance(IMAGES, "rot360")], epochs=1, precision="bf16-true")
    assert any("equivariance/capacity_1" in row for row in logger.rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OnlineEquivariance(IMAGES[0], "rot360"), r"\(B, C, H, W\)"),
        (lambda: OnlineEquivariance(IMAGES * 255, "rot360"), "divide them by 255"),
        (lambda: OnlineEquivariance(IMAGES[:5], "rot360"), "at least 8 images"),
        (lambda: OnlineEquivariance(IMAGES, "brightness"), "no spectrum"),
        (lambda: OnlineEquivariance(IMAGES, "rot360", every=0), "every starts at 1"),
        (lambda: OnlineEquivariance(IMAGES, "rot360", views=1), "views starts at 2"),
    ],
)
def test_what_cannot_be_scored_is_refused_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("encodr", "Theirs has no 'encodr' .did you mean 'encoder'"),
        ("zzz", "it has encoder, frozen, head"),
        ("seen", "cannot be called"),
        (lambda module, images: images, r"features \(B, D\), this one"),
    ],
)
def test_a_module_without_that_encoder_is_refused(encoder, message):
    with pytest.raises(ValueError, match=message):
        fit([OnlineEquivariance(IMAGES, "rot360", encoder)], epochs=1)
