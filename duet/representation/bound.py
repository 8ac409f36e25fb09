"""How far a trained encoder can be from equivariance at an element it has not seen (Appendix A)."""

import torch
from torch import Tensor

from ..domain import Topology, as_domain
from ..error import DuetError
from .target import Gaussian, Target


def lipschitz_action(target: Target, bins: int) -> float:
    """sup over g and j of |d/dg (log Q_j - mean_k log Q_k)|: the Lipschitz constant of g -> T_g z, infinity norm."""
    if bins < 2:
        raise DuetError(f"the action needs at least 2 bins, not {bins}")
    return _gaussian_constant(target.sigma, bins) if isinstance(target, Gaussian) else _supremum(target, bins)


def equivariance_bound(
    lipschitz_f: float | Tensor,
    lipschitz_tau: float | Tensor,
    lipschitz_action: float | Tensor,
    g: float | Tensor,
    seen: Tensor,
    cyclic: Topology = False,
) -> Tensor:
    """|f(tau_g x) - T_g f(x)| <= (L_f L_tau + L_T) min_i |g - g_i|: g (B,) or a number, seen (M,) -> (B,) or ()."""
    seen = torch.as_tensor(seen)
    if seen.numel() == 0:
        raise DuetError("the bound needs at least one seen element")
    g = torch.as_tensor(g, dtype=torch.promote_types(seen.dtype, torch.float32), device=seen.device)
    distance = as_domain(cyclic).distance(g.unsqueeze(-1), seen.flatten()).amin(-1)
    return (lipschitz_f * lipschitz_tau + lipschitz_action) * distance


def _gaussian_constant(sigma: float, bins: int) -> float:
    """h_(G-1)(0) - mean_i h_i(0), h_i = d/dg log of bin i's integral = (phi(a_i) - phi(b_i)) / (sigma DeltaPhi_i)."""
    edges = torch.arange(bins + 1, dtype=torch.float64, device="cpu") / (bins * sigma)
    lower, upper = edges[:-1], edges[1:]
    # phi(a) / DeltaPhi by erfcx(x) = exp(x^2) erfc(x), so that nothing underflows in the far bins; then
    # phi(b) = phi(a) exp((a^2 - b^2) / 2).
    decay = torch.exp((lower - upper) * (lower + upper) / 2)
    mills = torch.special.erfcx(torch.stack([lower, upper]) * 0.5**0.5) * (torch.pi / 2) ** 0.5
    h = (1 - decay) / (sigma * (mills[0] - decay * mills[1]))
    return float(h[-1] - h.mean())


def _supremum(target: Target, bins: int, points: int = 1024) -> float:
    """The same by search: over everything, then between the neighbours of the best g."""
    # All bins of the circle are alike and mirror-symmetric, so half a bin of g shows everything.
    low, high = 0.0, 0.5 / bins if target.cyclic else 1.0
    for _ in range(2):
        g = torch.linspace(low, high, points, dtype=torch.float64, device="cpu")
        slope = _slope(target, bins, g)
        largest = (slope - slope.mean(-1, keepdim=True)).abs().amax(-1)
        best, step = float(g[largest.argmax()]), (high - low) / (points - 1)
        low, high = max(low, best - step), min(high, best + step)
    return float(largest.max())


def _slope(target: Target, bins: int, g: Tensor) -> Tensor:
    """d/dg log Q_j(g): (K,) -> (K, bins)."""
    with torch.enable_grad():
        g = g.detach().requires_grad_()
        weights = torch.ones(len(g), bins, dtype=g.dtype, device=g.device, requires_grad=True)
        # Linear in the weights, so differentiating it once more by them gives every column in one pass.
        (combined,) = torch.autograd.grad((weights * target.log_masses(g, bins)).sum(), g, create_graph=True)
        (slope,) = torch.autograd.grad(combined.sum(), weights)
    return slope
