"""How sure a reading is: the probability that it is right, and the range of features that a model knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..domain import Domain
from ..error import DuetError
from ..groups import Group
from ..representation import Axis
from .error_quantiles import Errors

TOLERANCE = 1 / 8
"""Of the circle, or of what is drawn of an interval: a reading that is nearer to the truth than that is right."""
SURE = 0.9
"""The probability from which on a reading counts as sure."""
KNOWN_SHARE = 0.95
"""So many of the held-out images, which are of the training's own kind, lie in the known range."""
BLOCKS, LEAST_BLOCK = 20, 20
"""Groups of readings of about one doubt, at most, and readings in each, at least."""
LEAST_SHRINKAGE = 1e-4


class Judged(NamedTuple):
    """Readings of images whose element is known: their doubt, whether they are right, of which image, and how far off
    they are in units of g: (n,) each.

    `within` is how far from the reading a mass counts as near, in units of g.
    """

    doubt: Tensor
    right: Tensor
    image: Tensor
    within: float
    error: Tensor | None = None


class Curve(nn.Module):
    """The probability that a reading is right, given its doubt: straight lines between knots, flat beyond them."""

    doubts: Tensor  # (K,), rising
    probabilities: Tensor  # (K,), never rising

    def __init__(self, doubts: Tensor, probabilities: Tensor, within: float) -> None:
        super().__init__()
        if doubts.ndim != 1 or doubts.shape != probabilities.shape or not len(doubts):
            raise DuetError("the knots of a confidence are as many doubts as probabilities, one or more")
        if not bool((torch.isfinite(doubts) & (probabilities >= 0) & (probabilities <= 1)).all()) or not within > 0:
            raise DuetError("the knots of a confidence are finite doubts and probabilities from 0 to 1")
        if not bool((doubts.diff() > 0).all() and (probabilities.diff() <= 0).all()):
            raise DuetError("the knots of a confidence must rise in doubt and may not rise in probability")
        self.register_buffer("doubts", doubts)
        self.register_buffer("probabilities", probabilities)
        self.within = within

    @classmethod
    def fit(cls, judged: Judged) -> Curve:
        """Isotonic regression of being right on the doubt, over blocks of equal count, a knot at each block's mean.

        A block counts one reading more, half of it right, and its share is lowered by a standard error that counts
        images, not views: what few images show is said with caution.
        """
        from sklearn.isotonic import isotonic_regression

        order = judged.doubt.argsort(stable=True)
        if not len(order):
            raise DuetError("a confidence is fitted to one reading or more")
        parts = torch.tensor_split(order, max(1, min(BLOCKS, len(order) // LEAST_BLOCK)))
        share = [_cautious_share(judged.right[part], judged.image[part]) for part in parts]
        level = isotonic_regression(share, sample_weight=[len(part) for part in parts], increasing=False)
        doubt = torch.stack([judged.doubt[part].double().mean() for part in parts]).float()
        fresh = torch.cat([torch.tensor([True]), doubt.diff() > 0])  # many readings may share one doubt
        return cls(doubt[fresh], torch.tensor(level.tolist()).clamp(0, 1)[fresh], judged.within)

    def forward(self, doubt: Tensor) -> Tensor:
        """p_0 + sum_k slope_k min(max(doubt - d_k, 0), d_(k+1) - d_k): (B,) -> (B,). No search, so that it exports."""
        gaps, falls = self.doubts.diff(), self.probabilities.diff()
        walked = (doubt.to(self.doubts.dtype).unsqueeze(-1) - self.doubts[:-1]).clamp(min=0).minimum(gaps)
        found: Tensor = self.probabilities[0] + (walked * (falls / gaps)).sum(-1)
        return found.clamp(0, 1)

    def to_dict(self) -> dict[str, Any]:
        """Its knots as plain numbers."""
        knots = {"doubts": self.doubts.tolist(), "probabilities": self.probabilities.tolist()}
        return {"within": self.within, **knots}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Curve:
        """The curve that `to_dict` described."""
        doubts, probabilities = (torch.tensor([float(v) for v in plain[key]]) for key in ("doubts", "probabilities"))
        return cls(doubts, probabilities, float(plain["within"]))


class Confidence(nn.Module):
    """What a model knows of its own readings: a curve for every axis, and a range of features that counts as known.

    `errors`: by axis, how far off readings are; a confidence of an older version has none. Fitted after training, to
    images that were not trained on. Buffers only.
    """

    mean: Tensor  # (D,)
    whitening: Tensor  # (D, D), in such a scale that the known range ends at a distance of 1

    def __init__(
        self,
        mean: Tensor,
        whitening: Tensor,
        curves: Mapping[str, Curve],
        errors: Mapping[str, Errors] | None = None,
    ) -> None:
        super().__init__()
        dim = mean.numel()
        if mean.shape != (dim,) or whitening.shape != (dim, dim) or not mean.dtype == whitening.dtype:
            raise DuetError("the tensors of a confidence do not fit together")
        if not mean.is_floating_point() or not bool(torch.isfinite(whitening).all() and torch.isfinite(mean).all()):
            raise DuetError("the tensors of a confidence are not finite numbers")
        self.register_buffer("mean", mean)
        self.register_buffer("whitening", whitening)
        self.curves = nn.ModuleDict(dict(curves))
        self._errors = nn.ModuleDict(dict(errors or {}))

    @classmethod
    def fit(cls, trained: Tensor, held: Sequence[Tensor], judged: Mapping[str, Judged]) -> Confidence:
        """From features (N, D) of images that were trained on, of several kinds (M, D) of others, and their readings.

        The known range is an ellipsoid about the trained features: their Mahalanobis distance, with a shrunken
        covariance, up to that of KNOWN_SHARE of each kind of held-out images: transformed ones, and untouched ones.
        """
        z = trained.detach().to("cpu", torch.float64)
        mean = z.mean(0)
        factor = torch.linalg.cholesky(shrunken_covariance(z))
        whitening = torch.linalg.solve_triangular(factor, torch.eye(len(mean), dtype=z.dtype), upper=False).T
        away = [torch.linalg.vector_norm((kind.detach().to(z) - mean) @ whitening, dim=1) for kind in held]
        cut = max(float(distance.quantile(KNOWN_SHARE)) for distance in away)
        cut = max(cut, torch.finfo(torch.float32).tiny)
        curves = {name: Curve.fit(own) for name, own in judged.items()}
        errors = {
            name: Errors.fit(own.doubt, own.error, own.image, own.within)
            for name, own in judged.items()
            if own.error is not None
        }
        return cls(mean.float(), (whitening / cut).float().contiguous(), curves, errors)

    @property
    def errors(self) -> dict[str, Errors]:
        """How far off readings are, by axis."""
        return {name: own for name, own in self._errors.items() if isinstance(own, Errors)}

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes whose readings it judges."""
        return tuple(self.curves)

    def strangeness(self, z: Tensor) -> Tensor:
        """How far features lie from those of the training; the known range ends at 1: (B, D) -> (B,)."""
        away = (z.to(self.mean.dtype) - self.mean) @ self.whitening
        return away.square().sum(-1).sqrt()

    def probability(self, axis: Axis, masses: Tensor, g: Tensor) -> Tensor:
        """That readings g (B,) off marginals (B, bins) are right, of images of the known kind: (B,)."""
        curve = self.curves[axis.name]
        assert isinstance(curve, Curve)
        found: Tensor = curve(doubt(masses, g, axis.target.domain, curve.within))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The curves and errors, by axis, as plain numbers."""
        errors = {name: {"errors": own.to_dict()} for name, own in self.errors.items()}
        curves = {name: curve.to_dict() for name, curve in self.curves.items() if isinstance(curve, Curve)}
        return {name: {**curve, **errors.get(name, {})} for name, curve in curves.items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], features: int) -> Confidence:
        """From the curves of `to_dict` and the tensors `mean` and `whitening`; DuetError when they do not fit."""
        curves = {str(name): Curve.from_dict(own) for name, own in plain.items()}
        errors = {str(name): Errors.from_dict(own["errors"]) for name, own in plain.items() if "errors" in own}
        found = cls(tensors["mean"], tensors["whitening"], curves, errors)
        if len(found.mean) != features:
            raise DuetError(f"a confidence of {len(found.mean)} features in a layout of {features}")
        return found


def doubt(masses: Tensor, g: Tensor, domain: Domain, within: float) -> Tensor:
    """What of P(g|x) lies farther than `within` from the reading: (B, bins), (B,) -> (B,).

    It knows better than the spread which readings are wrong: a second peak counts the same wherever it is.
    """
    bins = masses.shape[-1]
    centres = (torch.arange(bins, dtype=masses.dtype, device=masses.device) + 0.5) / bins
    away = domain.distance(centres, g.to(masses.dtype).unsqueeze(-1))
    return (masses * ((away - within) * bins + 0.5).clamp(0, 1)).sum(-1)


def is_right(found: Tensor, truth: Tensor, group: Group) -> Tensor:
    """Whether read elements are right: nearest to the true one of a finite group, else within the tolerance: (n,)."""
    if group.elements is not None:
        elements = torch.tensor(group.elements, dtype=found.dtype, device=found.device)
        return group.domain.nearest(found, elements) == group.domain.nearest(truth, elements)
    return group.domain.distance(found, truth) <= tolerance(group)


def tolerance(group: Group) -> float:
    """How far off, in units of g, an element may be read: half the way to the next one of a finite group."""
    if group.elements is not None:
        apart = group.domain.distance(torch.tensor(group.elements).unsqueeze(1), torch.tensor(group.elements))
        others = apart[apart > 1e-6]
        return float(others.min()) / 2 if len(others) else TOLERANCE
    low, high = group.drawn_range()
    return TOLERANCE * (high - low)


def _cautious_share(right: Tensor, image: Tensor) -> float:
    share = (float(right.sum()) + 0.5) / (len(right) + 1)
    _, place = torch.unique(image, return_inverse=True)
    surplus = torch.zeros(len(right), dtype=torch.float64).index_add(0, place, right.double() - share)
    return share - float(surplus.square().sum().sqrt()) / len(right)


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
