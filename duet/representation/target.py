"""Target distributions of a group element: g -> masses of equal bins of [0, 1], and masses -> Estimate."""

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..device import full_precision
from ..domain import Circle, Domain, Interval, Topology, as_domain
from ..error import DuetError
from .peak import affinity_table, find_peak, grid, likelihood_table
from .quadrature import log_von_mises_integrals


class Estimate(NamedTuple):
    """Where the masses peak, and their standard deviation about it; both (B,), in units of g."""

    g: Tensor
    spread: Tensor


class Target(ABC):
    """A family of densities on the circle or on the interval [0, 1], indexed by its peak g."""

    domain: ClassVar[Domain]
    sigma: float

    @property
    def cyclic(self) -> bool:
        """Whether g lives on a circle."""
        return self.domain.cyclic

    @abstractmethod
    def _log_masses(self, g: Tensor, bins: int) -> Tensor:
        """log_masses of a float64 g."""

    @property
    def width(self) -> float:
        """The density's width in units of g: what a grid must resolve."""
        return self.sigma

    @abstractmethod
    def difference_masses(self, delta: Tensor, bins: int) -> Tensor:
        """Masses of g2 - g1 when it is `delta`: (B,) -> (B, bins) on the circle, (B, 2 bins - 1) on the interval."""

    def log_masses(self, g: Tensor, bins: int) -> Tensor:
        """log Q_j(g), Q_j = (integral of q(.|g) over bin j) / (over [0, 1]): (B,) -> (B, bins), exact in the tails."""
        _check_bins(bins, least=1)
        return self._log_masses(_double(g), bins).to(g.device, _result_dtype(g))

    def masses(self, g: Tensor, bins: int) -> Tensor:
        """Q_j(g), never below the smallest normal number: (B,) -> (B, bins), rows sum to 1."""
        _check_bins(bins, least=1)
        masses = self._log_masses(_double(g), bins).exp().to(g.device, _result_dtype(g))
        return masses.clamp(min=torch.finfo(masses.dtype).tiny)

    def estimate(self, masses: Tensor, method: str = "fit", among: Tensor | None = None) -> Estimate:
        """g of masses (B, bins), and its spread: by "fit" the likeliest, argmax_g sum_j masses_j log Q_j(g); by "match"
        the one whose target is nearest, argmax_g sum_j sqrt(masses_j Q_j(g)), which mass far away hardly moves; by
        "mean" the masses' expectation.

        With `among` (K,) it is that of these elements whose target is most alike, argmax_g cos(masses, Q(g)): a second
        peak elsewhere, which would draw the likelihood to it, hardly counts.
        The spread is sqrt(sum_j masses_j d_j^2), d_j the distance from g to bin j's centre, circular on the circle.
        """
        bins = masses.shape[-1]
        _check_bins(bins, least=self.domain.least_bins)
        masses = masses.to(_result_dtype(masses))
        masses = masses / masses.sum(-1, keepdim=True).clamp(min=torch.finfo(masses.dtype).tiny)
        centres = (torch.arange(bins, dtype=masses.dtype, device=masses.device) + 0.5) / bins
        if among is not None:
            alike = masses @ nn.functional.normalize(self.masses(among.to(masses), bins)).T
            g = among.to(masses)[alike.argmax(-1)]
        elif method in ("fit", "match"):
            g = self._peak(masses, method)
        elif method == "mean":
            g = self.domain.mean(masses, centres)
        else:
            raise DuetError(f"no method {method!r}; estimate has fit, match, mean")
        g = self.domain.wrap(g)
        variance = (masses * self.domain.difference(centres, g.unsqueeze(-1)).square()).sum(-1)
        return Estimate(g, variance.clamp(min=torch.finfo(masses.dtype).eps ** 2).sqrt())

    def read(self, logits: Tensor, among: Tensor | None = None) -> Estimate:
        """What softmax(logits) matches best, in double precision: a narrow target's masses use all its digits."""
        found = self.estimate(_double(logits).softmax(-1), "match", None if among is None else _double(among))
        return Estimate(*(part.to(logits.device, logits.dtype) for part in found))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers from which `target_from_dict` makes an equal target."""
        return {"kind": KINDS_BY_TYPE[type(self)], **asdict(self)}  # type: ignore[call-overload]

    def _peak(self, masses: Tensor, method: str) -> Tensor:
        # A traced program holds the table's own recipe: a cache would put traced tensors into later eager calls.
        build = _table if torch.compiler.is_compiling() else _cached_table
        with full_precision(masses):
            table = build(self, method, masses.shape[-1], masses.dtype, masses.device)
            return find_peak(weights(masses, method), table, _grid_points(self))


@dataclass(frozen=True)
class Gaussian(Target):
    """Normal density with standard deviation `sigma`, truncated to [0, 1]: for interval groups."""

    sigma: float = 0.2
    domain: ClassVar[Domain] = Interval()

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    def _log_masses(self, g: Tensor, bins: int) -> Tensor:
        half = 0.5 / bins
        centres = (2 * torch.arange(bins, dtype=g.dtype, device=g.device) + 1) * half
        away = (centres - g.unsqueeze(-1)) / self.sigma
        # Both tails are the lower tail of the mirrored bin, where log Phi keeps every digit.
        away = torch.where(away > 0, -away, away)
        upper = torch.special.log_ndtr(away + half / self.sigma)
        lower = torch.special.log_ndtr(away - half / self.sigma)
        log_integral: Tensor = upper + torch.log(-torch.expm1(lower - upper))
        return log_integral.log_softmax(-1)

    def difference_masses(self, delta: Tensor, bins: int) -> Tensor:
        """N(delta, sigma sqrt 2) over bins of width 1/G centred on the lags k/G, |k| < G: (B,) -> (B, 2 bins - 1)."""
        # The 2G - 1 bins span [-(G - 1/2)/G, (G - 1/2)/G]; measured in that span they are the bins of [0, 1].
        lags = 2 * bins - 1
        return Gaussian(self.sigma * math.sqrt(2) * bins / lags).masses((bins * delta + bins - 0.5) / lags, lags)


@dataclass(frozen=True, init=False)
class VonMises(Target):
    """exp(kappa cos 2 pi (x - g)) / I_0(kappa) on the circle, kappa = 1 / (2 pi sigma^2): for cyclic groups."""

    sigma: float
    kappa: float
    domain: ClassVar[Domain] = Circle()

    def __init__(self, sigma: float | None = None, kappa: float | None = None) -> None:
        if kappa is None:
            sigma = 0.2 if sigma is None else sigma
            _check_sigma(sigma)
            kappa = 1 / (2 * math.pi * sigma**2)
        if not (0 < kappa < math.inf):
            raise DuetError(f"kappa must be positive and finite, not {kappa}")
        implied = 1 / math.sqrt(2 * math.pi * kappa)
        _check_sigma(implied)
        if sigma is not None and not math.isclose(sigma, implied, rel_tol=1e-9):
            raise DuetError(f"sigma {sigma} and kappa {kappa} disagree (kappa gives sigma {implied:.6g}); give one")
        object.__setattr__(self, "sigma", implied if sigma is None else sigma)
        object.__setattr__(self, "kappa", kappa)

    @property
    def width(self) -> float:
        """1 / (2 pi sqrt kappa), in turns."""
        return self.sigma / math.sqrt(2 * math.pi)

    def _log_masses(self, g: Tensor, bins: int) -> Tensor:
        return log_von_mises_integrals(g, self.kappa, bins).log_softmax(-1)

    def difference_masses(self, delta: Tensor, bins: int) -> Tensor:
        """VM(delta, kappa / 2) over bins of width 1/G centred on the lags k/G, lag 0 first: (B,) -> (B, bins)."""
        return VonMises(kappa=self.kappa / 2).masses(delta + 0.5 / bins, bins)


KINDS: dict[str, type[Target]] = {"gaussian": Gaussian, "von_mises": VonMises}
KINDS_BY_TYPE = {kind: name for name, kind in KINDS.items()}


def target_from_dict(plain: dict[str, Any]) -> Target:
    """The target that `to_dict` described."""
    arguments = dict(plain)
    kind = arguments.pop("kind", None)
    if kind not in KINDS:
        raise DuetError(f"no target {kind!r}; there are {', '.join(KINDS)}")
    return KINDS[kind](**arguments)


def difference(p: Tensor, q: Tensor, cyclic: Topology) -> Tensor:
    """Masses of g_q - g_p, D_k = sum_i p_i q_(i + k): (B, bins) twice -> (B, bins), lag 0 first, on the circle;
    -> (B, 2 bins - 1), lag 0 in the middle, on the interval."""
    if p.shape != q.shape:
        raise DuetError(f"two marginals of one axis have one shape, not {tuple(p.shape)} and {tuple(q.shape)}")
    dtype = torch.promote_types(_result_dtype(p), q.dtype)
    with full_precision(p):
        return as_domain(cyclic).correlate(p.to(dtype), q.to(dtype))


MOST_POINTS = 2**15
"""Of a grid: narrower targets than these points can follow are found to a grid step."""


def _grid_points(target: Target) -> int:
    """Enough that the likelihood between neighbours is a polynomial: its features are as wide as the density."""
    width = target.width
    return min(max(64, math.ceil(12 / width)), MOST_POINTS)


def weights(masses: Tensor, method: str) -> Tensor:
    """What is multiplied with the method's table: the masses; or their roots less their mean, and it: (..., rows)."""
    if method == "fit":
        return masses
    roots = masses.clamp(min=torch.finfo(masses.dtype).tiny).sqrt()  # their slope stays finite
    mean = roots.mean(-1, keepdim=True)
    return torch.cat([roots - mean, mean], -1)


def _table(target: Target, method: str, bins: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    make = likelihood_table if method == "fit" else affinity_table
    with torch.no_grad():
        g = grid(_grid_points(target), target.domain)
        return make(target.log_masses, bins, g).to(device, dtype)


@functools.lru_cache(maxsize=64)
def _cached_table(target: Target, method: str, bins: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    # A tensor born in inference mode could not take part in a later backward pass.
    with torch.inference_mode(False):
        return _table(target, method, bins, dtype, device)


def _double(g: Tensor) -> Tensor:
    """g in float64; on the CPU where the device has none (MPS). Only (B, bins) numbers ever come back."""
    return g.to("cpu" if g.device.type == "mps" else g.device, torch.float64)


def _result_dtype(tensor: Tensor) -> torch.dtype:
    """float64 stays, everything else is float32: half precision has too few digits for a mass."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _check_sigma(sigma: float) -> None:
    """Refuse what double precision cannot tell from a point, or from the uniform distribution."""
    if not 1e-6 <= sigma <= 1e6:
        raise DuetError(f"sigma must be positive, from 1e-6 to 1e6; it is {sigma:g}")


def _check_bins(bins: int, least: int) -> None:
    if bins < least:
        circle = least == Circle.least_bins
        why = " (two cannot tell g from its mirror image)" if circle else ""
        where = "a circle" if circle else "an axis"
        raise DuetError(f"{where} needs at least {least} bins{why}, not {bins}; give the axis more bins")
