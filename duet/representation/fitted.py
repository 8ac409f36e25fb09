"""FittedAction: a linear action of g on the features of any encoder, fitted in closed form to pairs, without labels."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..device import full_precision
from ..domain import Domain, Topology, as_domain
from ..error import DuetError
from .action import Action, per_sample
from .moment import standard_scale

MATRIX_BYTES = 2_000_000_000  # the largest matrix of normal equations that a fit may make
CHUNK_BYTES = 64_000_000  # the regressors of the pairs are made this many bytes at a time


class FittedAction(nn.Module, Action):
    """T_by z = sum_k phi_k(by) W_k [s, 1], s the standardised z; phi is Fourier, polynomial or one per element.

    Buffers only: `state_dict` holds all of it and `from_state_dict` rebuilds it.
    """

    name: ClassVar[str] = "fitted"
    title: ClassVar[str] = "the fitted action"
    meaning: ClassVar[str] = "a linear map learned from pairs of images"

    mean: Tensor  # (D,)
    scale: Tensor  # (D,)
    weight: Tensor  # (K, D + 1, D), the constant's row last
    differences: Tensor  # (K,) differences of a finite group's elements; empty for a continuous group
    circle: Tensor  # (), bool

    def __init__(self, mean: Tensor, scale: Tensor, weight: Tensor, differences: Tensor, circle: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.register_buffer("weight", weight)
        self.register_buffer("differences", differences)
        self.register_buffer("circle", circle)
        self.domain: Domain = as_domain(bool(circle))

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor], features: int | None = None) -> FittedAction:
        """The action whose `state_dict` this is; refuses tensors that do not fit together, or other than `features`."""
        mean, scale, weight, differences, circle = (
            state[name] for name in ("mean", "scale", "weight", "differences", "circle")
        )
        dim, terms = mean.numel(), weight.shape[0] if weight.ndim else 0
        fits = mean.shape == scale.shape == (dim,) and weight.shape == (terms, dim + 1, dim) and terms > 0
        fits = fits and differences.shape in ((0,), (terms,)) and circle.shape == () and circle.dtype == torch.bool
        if not fits or not (mean.dtype == scale.dtype == weight.dtype and weight.is_floating_point()):
            raise DuetError("the tensors of a fitted action do not fit together")
        if features not in (None, dim):
            raise DuetError(f"an action of {dim} features in a layout of {features}")
        return cls(mean, scale, weight, differences, circle)

    @classmethod
    def fit(
        cls,
        z_from: Tensor,
        z_to: Tensor,
        by: Tensor,
        cyclic: Topology,
        order: int = 3,
        elements: Sequence[float] | None = None,
        ridge: float = 1e-6,
    ) -> FittedAction:
        """Ridge regression of f(tau_b x) on f(tau_a x), given by = b - a: (N, D), (N, D), (N,) -> FittedAction.

        `order` is the highest frequency on the circle, the degree on the interval. With `elements`, the g of a finite
        group, there is one matrix for each difference of two of them. `ridge` is in units of the regressors' mean
        square and pulls towards the identity: where the data say nothing, nothing moves.
        """
        _check_pairs(z_from, z_to, by)
        domain = as_domain(cyclic)
        if elements is not None and not len(elements):
            raise DuetError("a finite group has at least one element")
        if order < 0 or ridge < 0:
            raise DuetError(f"order and ridge must not be negative, not {order} and {ridge}")
        device = torch.device("cpu") if z_from.device.type == "mps" else z_from.device  # the fit needs float64
        z_from, z_to, by = z_from.detach().to(device), z_to.detach().to(device), by.detach().to(device, torch.float64)
        mean, scale = _moments(z_from, z_to)
        dim = len(mean)
        differences = domain.differences(elements or ()).to(device)
        if elements is None:
            order = _affordable_order(order, dim, domain)
            parts = [torch.arange(len(by), device=device)]
        else:
            order = 0  # one constant matrix for the pairs of each difference
            nearest = domain.nearest(by, differences)
            parts = [(nearest == k).nonzero().squeeze(-1) for k in range(len(differences))]
        terms = domain.terms(order)
        twice = domain.terms(2 * order)
        products = _products(domain, terms, twice, device)

        def solve(part: Tensor) -> Tensor:
            """The weights (K, D + 1, D) that best fit these pairs."""
            moments = torch.zeros(twice, dim + 1, dim + 1, dtype=torch.float64, device=device)
            moment = torch.zeros(terms * (dim + 1), dim, dtype=torch.float64, device=device)
            for rows in torch.split(part, max(1, CHUNK_BYTES // (8 * terms * (dim + 1)))):
                s, t = (_standardise(z[rows].to(torch.float64), mean, scale) for z in (z_from, z_to))
                affine = _affine(s)
                for psi, own in zip(domain.basis(by[rows], twice).T, moments, strict=True):
                    own.addmm_((affine * psi.unsqueeze(1)).T, affine)
                moment.addmm_(_regressors(s, domain.basis(by[rows], terms)).T, t - s)
            gram = torch.einsum("klm,mde->kdle", products, moments).reshape(len(moment), len(moment))
            weight = _ridge_solution(gram, moment, ridge).reshape(terms, dim + 1, dim)
            weight[0, :dim] += torch.eye(dim, dtype=torch.float64, device=device)  # T - 1 was fitted
            return weight

        weights = torch.cat([solve(part) for part in parts])
        return cls(mean, scale, weights, differences, torch.tensor(domain.cyclic, device=device))

    def act(self, z: Tensor, by: float | Tensor) -> Tensor:
        """T_by z: (B, D), (B,) -> (B, D)."""
        return self(z, by)  # type: ignore[no-any-return]

    def orbit(self, z: Tensor, start: float, goals: Tensor) -> Tensor:
        """The same for every goal, in single precision: the fit needs more, its use does not."""
        single = copy.deepcopy(self).float()
        return torch.stack([single(z, float(step)) for step in goals - start])

    def forward(self, z: Tensor, by: float | Tensor) -> Tensor:
        """T_by z: (B, D), (B,) -> (B, D), in the type of z. A finite group takes its nearest difference to `by`."""
        dtype = self.weight.dtype
        amount = per_sample(by, self.weight.new_empty(len(z), 0))
        with full_precision(z):
            s = _standardise(z.to(dtype), self.mean, self.scale)
            x = _regressors(s, self._phi(amount))
            moved: Tensor = x @ self.weight.flatten(0, 1) * self.scale + self.mean
        return moved.to(z.dtype)

    def extra_repr(self) -> str:
        """What kind of action it is, in a few words."""
        kind = f"{len(self.differences)} differences" if len(self.differences) else f"{len(self.weight)} terms"
        return f"{type(self.domain).__name__.lower()}, {len(self.mean)} features, {kind}"

    def law_error(self, z: Tensor, a: float | Tensor, b: float | Tensor) -> Tensor:
        """mean of |T_a T_b z - T_(a + b) z| / |z|: (B, D), (B,), (B,) -> ()."""
        error = self(self(z, b), a) - self(z, a + b)
        size = torch.linalg.vector_norm(z, dim=-1).clamp(min=torch.finfo(z.dtype).tiny)
        ratio: Tensor = torch.linalg.vector_norm(error, dim=-1) / size
        return ratio.mean()

    def _phi(self, by: Tensor) -> Tensor:
        if len(self.differences):
            nearest = self.domain.nearest(by, self.differences.to(by.dtype))
            return nn.functional.one_hot(nearest, len(self.differences)).to(by.dtype)
        return self.domain.basis(by, len(self.weight))

    def _apply(self, change: Any, recurse: bool = True) -> Any:
        try:
            return super()._apply(change, recurse)  # type: ignore[no-untyped-call]
        except TypeError:  # moved to a device without double precision, such as Apple's: single is enough to use it
            if self.weight.dtype != torch.float64:
                raise
            return nn.Module._apply(self.float(), change, recurse)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        super()._load_from_state_dict(*arguments, **options)
        self.domain = as_domain(bool(self.circle))


def _products(domain: Domain, terms: int, twice: int, device: torch.device) -> Tensor:
    """c with phi_k phi_l = sum_m c_klm psi_m: products of two functions of the basis lie in that of twice the order.

    So the normal equations need one moment of the features for every psi, not for every pair: (K, K, M).
    """
    points = torch.linspace(-1, 1, 4 * twice, dtype=torch.float64)
    phi, psi = domain.basis(points, terms), domain.basis(points, twice)
    pairs = (phi.unsqueeze(2) * phi.unsqueeze(1)).flatten(1)  # (points, K K)
    found: Tensor = torch.linalg.lstsq(psi, pairs).solution
    exact = (2 * found).round() / 2  # halves of angles' sums and differences, or whole powers
    return exact.T.reshape(terms, terms, twice).to(device)


def _affine(s: Tensor) -> Tensor:
    """[s, 1]: (N, D) -> (N, D + 1)."""
    return torch.cat([s, torch.ones_like(s[:, :1])], -1)


def _regressors(s: Tensor, phi: Tensor) -> Tensor:
    """phi_k [s, 1]_d, the constant last: (N, D), (N, K) -> (N, K (D + 1))."""
    return (phi.unsqueeze(-1) * _affine(s).unsqueeze(1)).flatten(1)


def _standardise(z: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    return (z - mean) / scale


def _moments(z_from: Tensor, z_to: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the features, in float64, without a float64 copy of them."""
    mean = (z_from.mean(0, dtype=torch.float64) + z_to.mean(0, dtype=torch.float64)) / 2
    square = torch.zeros_like(mean)
    for z in (z_from, z_to):
        for rows in torch.split(z, max(1, CHUNK_BYTES // (8 * z.shape[1]))):
            square += (rows.to(torch.float64) - mean).square().sum(0)
    return mean, standard_scale(mean, (square / (2 * len(z_from))).sqrt())


def _ridge_solution(gram: Tensor, moment: Tensor, ridge: float) -> Tensor:
    """(gram + ridge * mean diagonal)^-1 moment, by Cholesky; more ridge where rounding leaves no positive matrix."""
    level = float(gram.diagonal().mean())
    if level == 0:  # no pairs
        return torch.zeros_like(moment)
    if not math.isfinite(level):
        raise DuetError("the features hold NaN or infinity")
    strength, added = max(ridge, len(gram) * torch.finfo(gram.dtype).eps), 0.0
    while True:
        gram.diagonal().add_((strength - added) * level)
        factor, info = torch.linalg.cholesky_ex(gram)
        if int(info) == 0:
            return torch.cholesky_solve(moment, factor)
        strength, added = 10 * strength, strength


def _affordable_order(order: int, dim: int, domain: Domain) -> int:
    wanted = order
    while order > 0 and 8 * (domain.terms(order) * (dim + 1)) ** 2 > MATRIX_BYTES:
        order -= 1
    if order < wanted:
        warnings.warn(
            f"order {wanted} with {dim} features needs a matrix of more than {MATRIX_BYTES / 1e9:.1f} GB; "
            f"fitting order {order}",
            stacklevel=3,
        )
    return order


def _check_pairs(z_from: Tensor, z_to: Tensor, by: Tensor) -> None:
    if z_from.ndim != 2 or z_from.shape != z_to.shape or by.shape != z_from.shape[:1] or not len(by):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (z_from, z_to, by))
        raise DuetError(f"pairs are (N, D), (N, D) and (N,) with N > 0, not {shapes}")
