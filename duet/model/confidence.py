"""How sure a reading is: a probability for its spread, and the range of features that a model knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..error import DuetError
from ..groups import Group

TOLERANCE = 1 / 8
"""Of the circle, or of what is drawn of an interval: a reading that is nearer to the truth than that is right."""
SURE = 0.9
"""The probability from which on a reading counts as sure."""
KNOWN_SHARE = 0.95
"""So many of the held-out images, which are of the training's own kind, lie in the known range."""
BLOCKS, LEAST_BLOCK = 40, 20
"""Groups of readings of about one spread, at most, and readings in each, at least."""
LEAST_SHRINKAGE = 1e-4


class Judged(NamedTuple):
    """Readings of images whose element is known: the spread in g (n,), and whether they are right (n,)."""

    spread: Tensor
    right: Tensor


class Curve(nn.Module):
    """The probability that a reading is right, given its spread: straight lines between knots, flat beyond them."""

    spreads: Tensor  # (K,), rising
    probabilities: Tensor  # (K,), never rising

    def __init__(self, spreads: Tensor, probabilities: Tensor) -> None:
        super().__init__()
        if spreads.ndim != 1 or spreads.shape != probabilities.shape or not len(spreads):
            raise DuetError("the knots of a confidence are as many spreads as probabilities, one or more")
        if not bool((torch.isfinite(spreads) & (probabilities >= 0) & (probabilities <= 1)).all()):
            raise DuetError("the knots of a confidence are finite spreads and probabilities from 0 to 1")
        if not bool((spreads.diff() > 0).all() and (probabilities.diff() <= 0).all()):
            raise DuetError("the knots of a confidence must rise in spread and may not rise in probability")
        self.register_buffer("spreads", spreads)
        self.register_buffer("probabilities", probabilities)

    @classmethod
    def fit(cls, judged: Judged) -> Curve:
        """Isotonic regression of being right on the spread, over blocks of equal count, a knot at each block's mean.

        A block counts one reading more, half of it right: nothing is certain.
        """
        from sklearn.isotonic import isotonic_regression

        order = judged.spread.argsort(stable=True)
        if not len(order):
            raise DuetError("a confidence is fitted to one reading or more")
        parts = torch.tensor_split(order, max(1, min(BLOCKS, len(order) // LEAST_BLOCK)))
        share = [(float(judged.right[part].sum()) + 0.5) / (len(part) + 1) for part in parts]
        level = isotonic_regression(share, sample_weight=[len(part) for part in parts], increasing=False)
        spread = torch.stack([judged.spread[part].double().mean() for part in parts]).float()
        fresh = torch.cat([torch.tensor([True]), spread.diff() > 0])  # many readings may share one spread
        return cls(spread[fresh], torch.tensor(level.tolist())[fresh])

    def forward(self, spread: Tensor) -> Tensor:
        """p_0 + sum_k slope_k min(max(spread - s_k, 0), s_(k+1) - s_k): (B,) -> (B,). No search, so that it exports."""
        gaps, falls = self.spreads.diff(), self.probabilities.diff()
        walked = (spread.to(self.spreads.dtype).unsqueeze(-1) - self.spreads[:-1]).clamp(min=0).minimum(gaps)
        found: Tensor = self.probabilities[0] + (walked * (falls / gaps)).sum(-1)
        return found.clamp(0, 1)


class Confidence(nn.Module):
    """What a model knows of its own readings: a curve for every axis, and a range of features that counts as known.

    Fitted after training, to images that were not trained on. Buffers only.
    """

    mean: Tensor  # (D,)
    whitening: Tensor  # (D, D), in such a scale that the known range ends at a distance of 1

    def __init__(self, mean: Tensor, whitening: Tensor, curves: Mapping[str, Curve]) -> None:
        super().__init__()
        dim = mean.numel()
        if mean.shape != (dim,) or whitening.shape != (dim, dim) or not mean.dtype == whitening.dtype:
            raise DuetError("the tensors of a confidence do not fit together")
        if not mean.is_floating_point() or not bool(torch.isfinite(whitening).all() and torch.isfinite(mean).all()):
            raise DuetError("the tensors of a confidence are not finite numbers")
        self.register_buffer("mean", mean)
        self.register_buffer("whitening", whitening)
        self.curves = nn.ModuleDict(dict(curves))

    @classmethod
    def fit(cls, trained: Tensor, held: Tensor, judged: Mapping[str, Judged]) -> Confidence:
        """From features of transformed images, (N, D) trained on and (M, D) held out, and the readings of the latter.

        The known range is an ellipsoid about the trained features: their Mahalanobis distance, with a shrunken
        covariance, up to that of KNOWN_SHARE of the held-out ones.
        """
        z = trained.detach().to("cpu", torch.float64)
        mean = z.mean(0)
        factor = torch.linalg.cholesky(shrunken_covariance(z))
        whitening = torch.linalg.solve_triangular(factor, torch.eye(len(mean), dtype=z.dtype), upper=False).T
        away = (held.detach().to("cpu", torch.float64) - mean) @ whitening
        cut = torch.linalg.vector_norm(away, dim=1).quantile(KNOWN_SHARE).clamp(min=torch.finfo(torch.float32).tiny)
        curves = {name: Curve.fit(own) for name, own in judged.items()}
        return cls(mean.float(), (whitening / cut).float().contiguous(), curves)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes whose readings it judges."""
        return tuple(self.curves)

    def strangeness(self, z: Tensor) -> Tensor:
        """How far features lie from those of the training; the known range ends at 1: (B, D) -> (B,)."""
        away = (z.to(self.mean.dtype) - self.mean) @ self.whitening
        return away.square().sum(-1).sqrt()

    def probability(self, axis: str, spread: Tensor) -> Tensor:
        """That a reading of an image of the known kind is right, given its spread in units of g: (B,) -> (B,)."""
        return self.curves[axis](spread)  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The knots, by axis, as plain numbers."""
        return {
            name: {"spreads": curve.spreads.tolist(), "probabilities": curve.probabilities.tolist()}  # type: ignore[operator]
            for name, curve in self.curves.items()
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], features: int) -> Confidence:
        """From the knots of `to_dict` and the tensors `mean` and `whitening`; DuetError when they do not fit."""
        curves = {
            str(name): Curve(*(torch.tensor([float(v) for v in own[key]]) for key in ("spreads", "probabilities")))
            for name, own in plain.items()
        }
        found = cls(tensors["mean"], tensors["whitening"], curves)
        if len(found.mean) != features:
            raise DuetError(f"a confidence of {len(found.mean)} features in a layout of {features}")
        return found


def is_right(found: Tensor, truth: Tensor, group: Group) -> Tensor:
    """Whether read elements are right: nearest to the true one of a finite group, else within the tolerance: (n,)."""
    if group.elements is not None:
        elements = torch.tensor(group.elements, dtype=found.dtype, device=found.device)
        return group.domain.nearest(found, elements) == group.domain.nearest(truth, elements)
    return group.domain.distance(found, truth) <= tolerance(group)


def tolerance(group: Group) -> float:
    """How far off, in units of g, an element of a continuous group may be read."""
    low, high = group.drawn_range()
    return TOLERANCE * (high - low)


def shrunken_covariance(z: Tensor) -> Tensor:
    """(1 - a) S + a tr(S)/D 1, a by oracle approximating shrinkage (Chen et al. 2010): (N, D) -> (D, D).

    `a` is never below LEAST_SHRINKAGE, so that there is an inverse.
    """
    n, dim = z.shape
    centred = z - z.mean(0)
    covariance = centred.T @ centred / n
    level = float(covariance.diagonal().mean())
    if not math.isfinite(level):
        raise DuetError("the features hold NaN or infinity")
    square = float(covariance.square().mean())
    excess = (n + 1) * (square - level**2 / dim)
    weight = 1.0 if excess <= 0 else min(1.0, (square + level**2) / excess)
    weight = max(weight, LEAST_SHRINKAGE)
    shrunken = (1 - weight) * covariance
    shrunken.diagonal().add_(weight * level or 1.0)  # features that never move: any distance will do
    return shrunken
