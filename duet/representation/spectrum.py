"""Spectrum: the features of any encoder split into pure harmonics of a circle, in closed form, without labels.

A component p of harmonic k turns with the image: p(f(tau_by x)) = exp(2 pi i k by) p(f(x)). Its purity is the
correlation that two views of one image have in it, measured on other images than it was found on: 1 is exactly
steerable, 0 is chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..device import full_precision
from ..error import DuetError
from .action import Action, per_sample
from .target import Estimate
from .turn import best_turn, phases, sum_by_harmonic

CHUNK_BYTES = 64_000_000  # views are taken this many bytes at a time
STEERABLE = 0.3  # purity above which a component takes part in the action (docs/decisions.md)
APART = 0.3  # what is left of a unit row, against the rows that are there, to be one of its own
SUREST = 0.98  # a purity is not taken for higher: its error would be


class Turning(NamedTuple):
    """Components of harmonics above 0: which of the M they are, and (m,) of each its harmonic, its purity, never taken
    for more than SUREST, and whether it is a real number."""

    which: Tensor
    harmonic: Tensor
    purity: Tensor
    real: Tensor

    @property
    def weight(self) -> Tensor:
        """In the likelihood of a difference of two views: (m,)."""
        weight = self.purity / (1 - self.purity.square())
        return torch.where(self.real, weight / 2, weight)


class Spectrum(nn.Module, Action):
    """Pure components of every harmonic, and the exact action that turns them: T_a T_b = T_(a + b).

    Buffers only: `state_dict` holds all of it and `from_state_dict` rebuilds it. Complex numbers are stored as pairs.
    """

    name: ClassVar[str] = "spectral"
    title: ClassVar[str] = "the spectral action"
    meaning: ClassVar[str] = "turns each harmonic by its own angle"

    mean: Tensor  # (D,)
    analysis: Tensor  # (M, D, 2): component m of a feature is analysis_m (z - mean)
    harmonic: Tensor  # (M,) int64, which harmonic each component belongs to
    held_out: Tensor  # (M,) purities
    steered: Tensor  # (S,) int64, the components that the action turns
    out: Tensor  # (D, S, 2), what turning each of them adds to the features
    count: Tensor  # () int64, elements of a finite group; 0 for the circle

    def __init__(
        self,
        mean: Tensor,
        analysis: Tensor,
        harmonic: Tensor,
        held_out: Tensor,
        steered: Tensor,
        out: Tensor,
        count: Tensor,
    ) -> None:
        super().__init__()
        given = {"mean": mean, "analysis": analysis, "harmonic": harmonic, "held_out": held_out}
        for key, value in (given | {"steered": steered, "out": out, "count": count}).items():
            self.register_buffer(key, value)
        self._elements = int(count)  # a plain number, so that a graph can be made of it

    @classmethod
    def fit(
        cls,
        z: Tensor,
        g: Tensor,
        harmonics: int = 4,
        elements: Sequence[float] | None = None,
        ridge: float = 1e-6,
    ) -> Spectrum:
        """Components of harmonics 0 to `harmonics` from V views of each of N images: z (N, V, D), g (N, V).

        g must be uniform and independent a view: otherwise harmonics leak into each other. With `elements`, the g of a
        finite group of n around the circle, they are its characters 0 to n // 2. Found on every second image, measured
        on the others. `ridge` is in units of the features' mean variance.
        """
        _check_views(z, g, harmonics, ridge)
        turns, count = _turns(g, elements)
        highest = harmonics if count == 0 else count // 2
        device = torch.device("cpu") if z.device.type == "mps" else z.device  # eigenvectors need float64
        z, turns = z.detach().to(device), turns.to(device)
        found, measured = (_moments(z[half::2], turns[half::2], highest) for half in range(2))
        whiten, colour = _square_roots(found.total, ridge)
        whiten, colour = whiten.to(torch.complex128), colour.to(torch.complex128)
        parts: list[tuple[Tensor, int, Tensor]] = []
        for k in range(highest + 1):
            vectors = _components(whiten @ found.shared[k] @ whiten, real=_is_real(k, count))
            rows = vectors.mH @ whiten  # (n_k, D)
            explained = ((rows @ measured.shared[k]) * rows.conj()).sum(1).real
            size = ((rows @ measured.total.to(rows.dtype)) * rows.conj()).sum(1).real
            parts.append((vectors, k, explained / size.clamp(min=torch.finfo(size.dtype).tiny)))
        harmonic = torch.cat([torch.full((len(purity),), k, device=device) for _, k, purity in parts])
        analysis = torch.cat([vectors.mH for vectors, _, _ in parts]) @ whiten
        rows, steered, scale = _steering_rows(parts, count)
        inverse = rows.mH @ torch.linalg.inv(rows @ rows.mH) if len(rows) else rows.mH
        # A plane's conjugate row adds the conjugate; what is invariant adds nothing.
        turning = scale > 0
        out = (colour @ inverse)[:, turning] * scale[turning]
        return cls(
            found.mean,
            torch.view_as_real(analysis.contiguous()),
            harmonic,
            torch.cat([purity for _, _, purity in parts]),
            steered[turning],
            torch.view_as_real(out.contiguous()),
            torch.tensor(count, device=device),
        )

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor], features: int | None = None) -> Spectrum:
        """The spectrum whose `state_dict` this is; refuses tensors that do not fit together, or not `features`."""
        names = ("mean", "analysis", "harmonic", "held_out", "steered", "out", "count")
        mean, analysis, harmonic, held_out, steered, out, count = (state[name] for name in names)
        dim, components, turning = mean.numel(), harmonic.numel(), steered.numel()
        shapes = (
            (mean, (dim,)),
            (analysis, (components, dim, 2)),
            (harmonic, (components,)),
            (held_out, (components,)),
            (steered, (turning,)),
            (out, (dim, turning, 2)),
            (count, ()),
        )
        fits = all(part.shape == shape for part, shape in shapes)
        fits = fits and all(part.is_floating_point() for part in (mean, analysis, held_out, out))
        fits = fits and all(part.dtype == torch.int64 for part in (harmonic, steered, count))
        if not fits or not bool(((steered >= 0) & (steered < components)).all()):
            raise DuetError("the tensors of a spectrum do not fit together")
        if features not in (None, dim):
            raise DuetError(f"a spectrum of {dim} features in a layout of {features}")
        return cls(mean, analysis, harmonic, held_out, steered, out, count)

    @property
    def purity(self) -> dict[int, Tensor]:
        """Purities of the components of every harmonic, on images they were not found on, in the order of the fit."""
        return {k: self.held_out[self.harmonic == k] for k in self.harmonics}

    @property
    def harmonics(self) -> list[int]:
        """Which harmonics were looked for."""
        return sorted({0, *self.harmonic.tolist()}) if len(self.harmonic) else [0]

    def capacity(self, k: int) -> float:
        """Dimensions (k = 0, real characters) or turning planes of a harmonic: the sum of its held-out purities."""
        return float(self.held_out[self.harmonic == k].sum())

    def is_real(self, k: int) -> bool:
        """Whether the components of a harmonic are real numbers; the others turn in a plane."""
        return _is_real(k, self._elements)

    @property
    def elements(self) -> int:
        """How many elements a finite group has; 0 for the circle."""
        return self._elements

    @property
    def turning(self) -> Turning:
        """The components that tell by how much two features are turned."""
        which = (self.harmonic > 0) & (self.held_out > 0)
        harmonic = self.harmonic[which]
        real = torch.tensor([self.is_real(int(k)) for k in harmonic], device=which.device, dtype=torch.bool)
        return Turning(which, harmonic, self.held_out[which].clamp(max=SUREST), real)

    def turning_codes(self, z: Tensor) -> Tensor:
        """Those components of features: (B, D) -> complex (B, m)."""
        return self._codes(z, self.turning.which)

    def code(self, z: Tensor) -> dict[int, Tensor]:
        """The components of features, by harmonic: (B, D) -> complex (B, n_k), of unit mean square."""
        codes = self._codes(z)
        return {k: codes[:, self.harmonic == k] for k in self.harmonics}

    def act(self, z: Tensor, by: float | Tensor) -> Tensor:
        """T_by z = z + R (E_by - 1) P z, exactly a group; what is not steerable stays: (B, D), (B,) -> (B, D)."""
        with full_precision(z):
            x = z.to(self.mean.dtype) - self.mean
            amount = self._steps(per_sample(by, x))
            # Real arithmetic: graphs for other runtimes have no complex numbers.
            into = self.analysis[self.steered]
            real, imaginary = x @ into[..., 0].T, x @ into[..., 1].T
            angle = 2 * math.pi * amount.unsqueeze(-1) * self.harmonic[self.steered].to(amount.dtype)
            cosine, sine = angle.cos() - 1, angle.sin()
            turned, risen = real * cosine - imaginary * sine, real * sine + imaginary * cosine
            moved = turned @ self.out[..., 0].T - risen @ self.out[..., 1].T
            return (z.to(self.mean.dtype) + moved).to(z.dtype)

    def forward(self, z: Tensor, by: float | Tensor) -> Tensor:
        """The same as `act`."""
        return self.act(z, by)

    def difference(self, first: Tensor, second: Tensor) -> Estimate:
        """g_2 - g_1 of two features, in (-1/2, 1/2], and its spread: (B, D), (B, D) -> Estimate of (B,), (B,).

        The by that maximises the likelihood sum of w Re(exp(-2 pi i k by) conj(p_1) p_2), w = purity / (1 - purity^2).
        """
        turning = self.turning
        products = self._codes(first, turning.which).conj() * self._codes(second, turning.which) * turning.weight
        found, spread = best_turn(*sum_by_harmonic(products, turning.harmonic), self._elements)
        return Estimate(found.to(first.dtype), spread.to(first.dtype))

    def extra_repr(self) -> str:
        """Its capacities, in a few words."""
        sizes = ", ".join(f"{k}: {self.capacity(k):.1f}" for k in self.harmonics)
        return f"{len(self.mean)} features, capacity {sizes}"

    def _codes(self, z: Tensor, which: Tensor | None = None) -> Tensor:
        """All components of features, or some: (B, D) -> complex (B, M)."""
        analysis = torch.view_as_complex(self.analysis if which is None else self.analysis[which])
        return (z.to(self.mean.dtype) - self.mean).to(analysis.dtype) @ analysis.T

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        super()._load_from_state_dict(*arguments, **options)
        self._elements = int(self.count)

    def _steps(self, by: Tensor) -> Tensor:
        """A finite group takes the nearest of its elements."""
        count = self._elements
        return by if count == 0 else (by * count).round() / count


class _Moments:
    """Of one half of the images: their mean, total covariance, and what two views of an image share, by harmonic."""

    def __init__(self, mean: Tensor, total: Tensor, shared: list[Tensor]) -> None:
        self.mean, self.total, self.shared = mean, total, shared


def _moments(z: Tensor, turns: Tensor, highest: int) -> _Moments:
    images, views, dim = z.shape
    mean = z.reshape(-1, dim).mean(0, dtype=torch.float64)
    total = torch.zeros(dim, dim, dtype=torch.float64, device=z.device)
    sums = [torch.zeros(dim, dim, dtype=torch.complex128, device=z.device) for _ in range(highest + 1)]
    for rows in torch.split(torch.arange(images), max(1, CHUNK_BYTES // (16 * views * dim))):
        x = z[rows].to(torch.float64) - mean
        flat = x.reshape(-1, dim)
        total.addmm_(flat.T, flat)
        for k, sum_k in enumerate(sums):
            # c_v = exp(-2 pi i k g_v) x_v; the products of a view with itself lose their phase, so they are `total`.
            phase = phases(turns[rows].flatten(), torch.tensor([-k], device=z.device)).reshape(len(rows), views, 1)
            turned = (x * phase).sum(1)
            sum_k.addmm_(turned.T, turned.conj())
    pairs = images * views * (views - 1)
    shared = [sum_k.sub_(total).div_(pairs) for sum_k in sums]
    return _Moments(mean, total / (images * views), shared)


def _square_roots(total: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """S^(-1/2) and S^(1/2), symmetric; directions without variance are left out: (D, D) -> (D, D), (D, D)."""
    if not bool(torch.isfinite(total).all()):
        raise DuetError("the features hold NaN or infinity")
    values, vectors = torch.linalg.eigh(total)
    level = float(values.clamp(min=0).mean())
    values = values.clamp(min=0) + ridge * level
    there = values > max(level, torch.finfo(values.dtype).tiny) * len(values) * torch.finfo(values.dtype).eps
    root = torch.where(there, values, torch.ones_like(values)).sqrt()
    inverse = torch.where(there, 1 / root, torch.zeros_like(root))
    root = torch.where(there, root, torch.zeros_like(root))
    return (vectors * inverse) @ vectors.T, (vectors * root) @ vectors.T


def _components(shared: Tensor, real: bool) -> Tensor:
    """Eigenvectors (D, n) of what views share, the purest first; those that noise could not have made."""
    values, vectors = torch.linalg.eigh(shared.real if real else shared)
    # Without signal the eigenvalues lie evenly about 0: what exceeds the most negative one is no accident.
    chosen = values > -values[0].clamp(max=0)
    purest: Tensor = vectors[:, chosen].flip(1).to(torch.complex128)
    return purest


def _steering_rows(parts: list[tuple[Tensor, int, Tensor]], count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows u^H, and their conjugates for planes, of all steerable components that lie apart: (R, D).

    With the component of each, (R,), and how often its part counts when it turns, (R,): twice for the first row of a
    plane, whose conjugate is left out, once for a real character, and not at all for what is invariant.
    """
    first, candidates = 0, []
    for vectors, k, purity in parts:
        candidates += [(float(p), vectors[:, m], k, first + m) for m, p in enumerate(purity) if p > STEERABLE]
        first += len(purity)
    dim, device = parts[0][0].shape[0], parts[0][0].device
    basis = torch.zeros(0, dim, dtype=torch.complex128, device=device)  # orthonormal, spans the accepted rows
    rows: list[Tensor] = []
    components: list[int] = []
    scale: list[float] = []
    for _, vector, k, place in sorted(candidates, key=lambda one: -one[0]):
        real = _is_real(k, count)
        own = [vector.conj()] if real else [vector.conj(), vector]
        grown = basis
        for row in own:
            left = row - (row @ grown.mH) @ grown
            left = left - (left @ grown.mH) @ grown  # twice is enough
            size = torch.linalg.vector_norm(left)
            if float(size) < APART:
                break
            grown = torch.cat([grown, (left / size).unsqueeze(0)])
        else:
            basis = grown
            rows += own
            components += [place] * len(own)
            scale += [float(k > 0)] if real else [2.0, 0.0]
    stacked = torch.stack(rows) if rows else basis
    return stacked, torch.tensor(components, dtype=torch.int64, device=device), torch.tensor(scale, device=device)


def _turns(g: Tensor, elements: Sequence[float] | None) -> tuple[Tensor, int]:
    """g as shares of a turn, and the number of elements; those of a finite group from its first element on."""
    if elements is None:
        return g.to(torch.float64), 0
    known = sorted(float(e) for e in elements)
    n = len(known)
    gaps = [known[(i + 1) % n] - known[i] + (i + 1 == n) for i in range(n)]
    if n < 2 or max(gaps) - min(gaps) > 1e-6:
        raise DuetError(f"a spectrum needs a group that turns: elements evenly around the circle, not {tuple(known)}")
    return ((g.to(torch.float64) - known[0]) * n).round() / n, n


def _is_real(k: int, count: int) -> bool:
    return k == 0 or (count > 0 and 2 * k == count)


def _check_views(z: Tensor, g: Tensor, harmonics: int, ridge: float) -> None:
    if z.ndim != 3 or g.shape != z.shape[:2] or not z.is_floating_point():
        raise DuetError(f"views are z (N, V, D) with g (N, V), not {tuple(z.shape)} and {tuple(g.shape)}")
    if len(z) < 4 or z.shape[1] < 2:
        raise DuetError(f"a spectrum needs at least 4 images and 2 views of each, not {len(z)} and {z.shape[1]}")
    if harmonics < 0 or ridge < 0:
        raise DuetError(f"harmonics and ridge must not be negative, not {harmonics} and {ridge}")
