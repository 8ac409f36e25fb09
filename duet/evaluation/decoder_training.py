"""A decoder of frozen features: trained on views of images, so that features can be looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

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
    """How a decoder is trained: Adam, one cycle of the learning rate, or `warmup` steps and then a cosine.

    `noise` is added to the features, in units of their spread: the decoder then meets features off those of any image,
    as the prescribed T_g f(x) is. It costs some plain reconstruction.
    """

    steps: int = 1500
    batch: int = 128
    lr: float = 2e-3
    noise: float = 0.3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    warmup: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name in ("betas", "warmup") or (value >= 0 if name in ("noise", "weight_decay") else value > 0):
                continue
            raise DuetError(f"{name} of a decoder's training cannot be {value}")

    def share(self, step: int) -> float:
        """The share of the highest learning rate after a warm-up: linear to 1, then a cosine to 0."""
        warm = self.warmup or 0.0
        if step < warm:
            return (step + 1) / (warm + 1)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1.0, self.steps - warm))))

    def optimizer(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """Adam, its decay added to the gradient, as one fused kernel where there is one."""
        fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
        return torch.optim.Adam(parameters, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay, fused=fused)

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """The learning rate of every step."""
        if self.warmup is not None:
            return torch.optim.lr_scheduler.LambdaLR(optimizer, self.share)
        return torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.lr, total_steps=self.steps + 1, pct_start=0.1, cycle_momentum=False
        )


class Recipe(NamedTuple):
    """A decoder's size, and how it is trained on so many images, or in so many steps."""

    build: BuildDecoder
    training: Callable[[int, int | None], Training]


def small_training(images: int, steps: int | None = None) -> Training:
    """About a minute on two cores, with noise on the features."""
    return Training() if steps is None else Training(steps=steps)


def paper_training(images: int, steps: int | None = None) -> Training:
    """Table 5 of the paper, as the encoder's: 800 epochs of batch 2048, 10 of warm-up; no noise on the features."""
    steps = 800 * max(1, images // 2048) if steps is None else steps
    return Training(steps, 2048, 1e-4, 0.0, betas=(0.9, 0.95), weight_decay=1e-4, warmup=steps * 10 / 800)


DECODERS = {"small": Recipe(small_decoder, small_training), "paper": Recipe(Decoder, paper_training)}
"""The decoders that an evaluation may train, by name."""


def describe_decoder(provenance: Mapping[str, Any]) -> str:
    """Which decoder a result was measured with, in words; nothing where it does not say."""
    size, training = provenance.get("decoder"), provenance.get("training")
    if not isinstance(size, Mapping) or not isinstance(training, Mapping):
        return ""
    large = [size.get(key) for key in ("width", "blocks", "stages", "patch")] == [64, 2, 4, 1]
    noise = training.get("noise")
    told = f"trained with noise of {noise:g} spreads on the features" if noise else "trained without noise"
    return f"{'a decoder of the size of ResNet-18' if large else 'a small decoder'}, {told}"


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
    optimizer = training.optimizer(list(decoder.parameters()))
    schedule = training.schedule(optimizer)
    order = torch.empty(0, dtype=torch.int64)
    for _ in track(((1, step) for step in range(training.steps)), training.steps, label):
        # Every image as often as any other, give or take one, also when there are fewer than a batch.
        while len(order) < training.batch:
            order = torch.cat([order, torch.randperm(len(images), generator=generator)])
        rows, order = order[: training.batch], order[training.batch :]
        views, z = random_views(features, images[rows.to(images.device)], group, generator)
        if training.noise:
            z = z + training.noise * spread * torch.randn(z.shape, generator=generator).to(device)
        loss = (decoder.unbounded(z) - views.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return decoder.eval()


def random_views(features: Features, images: Tensor, group: Group, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Views at random elements, without nuisance, and their features: (N,C,H,W) -> (N,C,H,W), (N,D)."""
    views = group.apply(as_float(images), group.sample(len(images), generator))
    return views, features(views)
