"""What must be beaten at finding upright: linear probes that were told the angles, of the same frozen features."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data import Images
from ..error import DuetError
from ..evaluation.probe import fit_probe
from ..groups import Group
from ..model import Encoder
from ..networks import Trunk
from ..progress import track, with_bar
from .upright import Reader, turn

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Weight decays of the four-way probe; the images kept aside choose."""
STEPS = 60
GRID = 4
"""Side of the grid that the four-way probe reads; the regression of whole maps takes many minutes."""
BATCH = 256  # ONNX Runtime is worth its start from here on
VIEWS = 3
"""Turned views of every image that the angle's probe is told."""
ANGLES = 360

Scores = Callable[[Tensor], Tensor]
"""Images (B,C,H,W) -> scores (B,K) of K angles evenly around the circle, upright first."""


def looking(scores: Scores, turns: int) -> Reader:
    """The best angle of the mean over turned copies, each turned back by what is known: (B,K) -> degrees, its score."""

    def read(images: Tensor, quarters: bool) -> tuple[Tensor, Tensor]:
        found = []
        for k in range(turns):
            copy = torch.rot90(images, k * 4 // turns, (2, 3)) if turns > 1 else images
            own = scores(copy)
            found.append(own.roll(-k * own.shape[1] // turns, 1))
        mean = torch.stack(found).mean(0)
        step = mean.shape[1] // 4
        best, place = (mean[:, ::step] if quarters else mean).max(1)
        return place * (90.0 if quarters else 360 / mean.shape[1]), best

    if turns not in (1, 2, 4):
        raise DuetError(f"turned copies are 1, 2 or 4, not {turns}")
    return read


def quarter_probe(trunk: Trunk, trained: Images, aside: Images, group: Group) -> Scores:
    """Which of four quarter turns it is: softmax regression of the trunk's maps, pooled to a grid of 4 x 4."""
    x, y = _quarters(trunk, trained, group)
    held_x, held_y = _quarters(trunk, aside, group)
    mean, spread = x.mean(0), x.std(0).clamp(min=1e-6)
    x, held_x = x.sub_(mean).div_(spread), held_x.sub_(mean).div_(spread)
    strengths = with_bar(STRENGTHS, len(STRENGTHS), "fitting four-way probes")
    fits = [softmax_regression(x, y, strength, STEPS) for strength in strengths]
    right = [float(((held_x @ weight + bias).argmax(1) == held_y).float().mean()) for weight, bias in fits]
    weight, bias = fits[max(range(len(fits)), key=right.__getitem__)]

    def scores(images: Tensor) -> Tensor:
        return (((_maps(trunk, images) - mean) / spread) @ weight + bias).log_softmax(1)

    return scores


def softmax_regression(x: Tensor, y: Tensor, decay: float, steps: int) -> tuple[Tensor, Tensor]:
    """Weights (D,4) and biases (4,) of least cross-entropy plus decay |W|^2 / 2, by L-BFGS: (N,D), (N,)."""
    weight = torch.zeros(x.shape[1], 4, requires_grad=True)
    bias = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ weight + bias, y) + decay * weight.square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


def angle_probe(encoder: Encoder, trained: Images, group: Group, seed: int = 0) -> Scores:
    """The angle by ridge regression of its cosine and sine, from any features that were told it."""
    generator = torch.Generator().manual_seed(seed)
    z, turns = [], []
    for pixels in _batches(trained, "views for the probe"):
        for _ in range(VIEWS):
            turns.append(torch.rand(len(pixels), generator=generator))
            z.append(encoder.features(turn(pixels, group, turns[-1])).cpu())
    predict = fit_probe(torch.cat(z), torch.cat(turns), group.domain)
    angles = 2 * torch.pi * torch.arange(ANGLES) / ANGLES
    waves = torch.stack([angles.cos(), angles.sin()])  # (2, K)
    return lambda images: predict(encoder.features(images).cpu()).float() @ waves


def _quarters(trunk: Trunk, images: Images, group: Group) -> tuple[Tensor, Tensor]:
    """The maps of every image at its four quarter turns, and which it is: (4N,D), (4N,)."""
    x, y = [], []
    for pixels in _batches(images, f"quarter turns through {trunk.name}"):
        for quarter in range(4):
            x.append(_maps(trunk, turn(pixels, group, torch.full((len(pixels),), quarter / 4))))
            y.append(torch.full((len(pixels),), quarter))
    return torch.cat(x), torch.cat(y)


def _maps(trunk: Trunk, images: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = trunk(images.to(trunk.mean.device))
    return F.adaptive_avg_pool2d(found.float(), min(GRID, trunk.side)).flatten(1).cpu()


def _batches(images: Images, label: str) -> Iterator[Tensor]:
    sized = ((len(pixels), pixels) for pixels, _ in images.in_order(BATCH))
    return track(sized, len(images), label)
