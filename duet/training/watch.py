"""Signs that a run does not learn: a loss that rises or is huge, collapsed features. Said early, and again."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import torch
from torch import Tensor

from .loop import Loop, Metrics

log = logging.getLogger(__name__)

SHORTEST, LONGEST, WINDOWS = 8, 100, 100
"""Steps of a window, at least and at most; else a run has so many windows."""
PATIENCE = 3
"""Windows in a row that must show a sign before it is said."""
HUGE = 1e7
"""Of a loss: float32 keeps seven digits, and a term of size 1 is lost beside it."""
ROWS = 256
"""Features of a step that are looked at."""
LEAST_RANK, LEAST_VARIANCE = 1.5, 1e-4
ADVICE = {"huge": "may help, or a smaller --weight, or a higher --temperature"}
"""Where a sign has more causes than the learning rate."""


class Losses:
    """The mean loss of window after window: how far it has come down, and whether it has gone up again."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.lowest = math.inf
        self.mean = math.nan

    def begin(self, loss: float) -> None:
        """A loss of before: the first one that there is counts as what an untrained network has."""
        self.first = loss if self.first is None else self.first
        self.lowest = min(self.lowest, loss)

    def rises(self, losses: Tensor) -> bool:
        """Whether a window (n,) lies above the lowest so far, by half of what was gained and by more than noise."""
        if self.first is None:
            self.begin(float(losses[0]))
        assert self.first is not None
        noise = 3 * float(losses.std(correction=0))
        self.mean = float(losses.mean())
        clear = max((self.first - self.lowest) / 2, noise, 0.1 * abs(self.first))
        risen = self.mean > self.lowest + clear
        self.lowest = min(self.lowest, self.mean)
        return risen


def effective_rank(z: Tensor) -> tuple[float, float]:
    """(sum of eigenvalues)^2 / sum of their squares, of the covariance of z (n, D), and their mean: the variance.

    The first is 1 where all features are one number's multiples, and D where they vary alike and apart.
    """
    centred = z.float() - z.float().mean(0)
    products = centred @ centred.T  # (n, n), with the eigenvalues of the covariance, times n
    total, squares = float(products.trace()), float(products.square().sum())
    return (total**2 / squares if squares > 0 else 0.0), total / z.numel()


class Watch:
    """Looks at the losses and at the features of a step every few steps; it only reads, and only speaks."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.losses = Losses()
        self.window: list[Tensor] = []
        self.shown: dict[str, int] = {}  # windows in a row that have shown a sign
        self.said: dict[str, str] = {}

    def begin(self, loop: Loop) -> None:
        """Learn from metrics.csv what the loss was before the run was resumed."""
        self.size = min(LONGEST, max(SHORTEST, len(loop.batches) // WINDOWS))
        self.rate = loop.experiment.lr
        if loop.batches.start:
            for row in Metrics(self.run / "metrics.csv", loop.batches.start).rows:
                self.losses.begin(float(row["loss"]))

    def after_batch(self, loop: Loop, done: int) -> None:
        """Look, once a window."""
        self.window.append(loop.module.latest["loss"])
        if len(self.window) < self.size:
            return
        losses, self.window = torch.stack(self.window).float().cpu(), []
        if not bool(torch.isfinite(losses).all()):
            return  # the loop stops the run
        for sign, text in self._signs(losses, loop.module.features, done).items():
            advice = f"a lower --lr than {self.rate:g} {ADVICE.get(sign, 'often helps')}"
            self._note(sign, None if text is None else f"{text}; {advice}")

    def end(self) -> None:
        """Nothing to close."""

    def say_again(self) -> None:
        """What was said and still holds, once the model is there."""
        for sign, text in self.said.items():
            if self.shown[sign]:
                log.warning("this training did not go well, though its model is saved: %s", text)

    def _signs(self, losses: Tensor, z: Tensor | None, step: int) -> dict[str, str | None]:
        """Every sign in words, None where it is not seen: losses (n,) of a window, features (B, D) of its last step."""
        lowest, rises = self.losses.lowest, self.losses.rises(losses)
        mean = self.losses.mean
        rank, variance = (math.inf, math.inf) if z is None or len(z) < 2 else effective_rank(z[:ROWS])
        features = 0 if z is None else z.shape[1]
        rise = f"the loss rises: {mean:.4g} about step {step}, and it was {lowest:.4g} before"
        huge = f"the loss is huge, {mean:.3g} about step {step}, and what is small in it is rounded away"
        how = f"their variance is {variance:.2g}, and {features} of them vary as {rank:.1f} would"
        return {
            "rise": rise if rises else None,
            "huge": huge if abs(mean) > HUGE else None,
            "collapse": f"the features have collapsed: at step {step} {how}"
            if rank < min(LEAST_RANK, features / 2) or variance < LEAST_VARIANCE
            else None,
        }

    def _note(self, sign: str, text: str | None) -> None:
        self.shown[sign] = 0 if text is None else self.shown.get(sign, 0) + 1
        if text is not None and self.shown[sign] >= PATIENCE:
            if sign not in self.said:
                log.warning("%s", text)
            self.said[sign] = text
