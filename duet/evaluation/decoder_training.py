"""A decoder of frozen features: trained on views of images, so that features can be looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from ..error import DuetError
from ..groups import Group
from ..model.fitting import Features
from ..networks.decoder import Decoder, small_decoder
from ..pixels import as_float
from ..progress import track

BuildDecoder = Callable[[int, int, tuple[int, int]], Decoder]  # (dim, channels, size) -> fresh weights
STATISTICS = 2048  # views from which the decoder takes the mean and spread of the features


@dataclass(frozen=True)
class Training:
    """How a decoder is trained: Adam, one cycle of the learning rate.

    `noise` is added to the features, in units of their spread: the decoder then meets features off those of any image,
    as the prescribed T_g f(x) is. It costs some plain reconstruction.
    """

    steps: int = 1500
    batch: int = 128
    lr: float = 2e-3
    noise: float = 0.3

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (value >= 0 if name == "noise" else value > 0):
                raise DuetError(f"{name} of a decoder's training cannot be {value}")


def train_decoder(
    features: Features,
    images: Tensor,
    group: Group,
    *,
    build: BuildDecoder = small_decoder,
    training: Training | None = None,
    seed: int = 0,
    label: str = "decoder",
) -> Decoder:
    """Train d with d(f(tau_g x)) = tau_g x on images (N,C,H,W) under random g, by squared error; f stays as it is.

    A view is the whole image under one element of the group: no crop and no jitter, because that is what T_g f(x) is
    compared with, and what the fitted action was fitted to. Every step draws fresh views.
    """
    if not len(images):
        raise DuetError("a decoder needs images to train on")
    training = training or Training()
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(images), (STATISTICS,), generator=generator)
    _, z = random_views(features, images[rows.to(images.device)], group, generator)
    device = z.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = build(z.shape[1], images.shape[1], (images.shape[2], images.shape[3]))
    decoder.standardise_by(z)
    decoder.to(device).train()
    spread = decoder.scale.clone()
    parameters = list(decoder.parameters())
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    optimizer = torch.optim.Adam(parameters, lr=training.lr, fused=fused)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, training.lr, total_steps=training.steps + 1, pct_start=0.1, cycle_momentum=False
    )
    order = torch.empty(0, dtype=torch.int64)
    for _ in track(((1, step) for step in range(training.steps)), training.steps, label):
        # Every image as often as any other, give or take one, also when there are fewer than a batch.
        while len(order) < training.batch:
            order = torch.cat([order, torch.randperm(len(images), generator=generator)])
        rows, order = order[: training.batch], order[training.batch :]
        views, z = random_views(features, images[rows.to(images.device)], group, generator)
        z = z + training.noise * spread * torch.randn(z.shape, generator=generator).to(device)
        loss = (decoder.unbounded(z) - views.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        cycle.step()
    return decoder.eval()


def random_views(features: Features, images: Tensor, group: Group, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Views at random elements, without nuisance, and their features: (N,C,H,W) -> (N,C,H,W), (N,D)."""
    views = group.apply(as_float(images), group.sample(len(images), generator))
    return views, features(views)
