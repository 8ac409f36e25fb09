"""Linear probes: what of an element g can be read off any features by somebody who was told the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..domain import Domain, Topology, as_domain
from ..representation.moment import standard_scale
from .context import Context, Orbit

SEEDS = 3


def probe_orbit(context: Context, orbit: Orbit, views: int = SEEDS, content: bool = False) -> Tensor:
    """The probes' answers at every element, one probe for each of a few draws of the training views: (seeds,n,N)."""
    drawn = context.views(orbit.group, views)
    select = context.subject.layout.content if content else _all
    test = select(orbit.z.flatten(0, 1))
    found = [
        linear_probe(select(drawn.z[:, seed]), drawn.g[:, seed], test, orbit.group.domain)
        for seed in range(min(views, drawn.z.shape[1]))
    ]
    return torch.stack(found).reshape(len(found), *orbit.g.shape)


def probe_shuffled(context: Context, orbit: Orbit) -> Tensor:
    """The answers of probes that were told the elements of other images: (seeds,n,N)."""
    drawn, generator = context.views(orbit.group), context.generator("shuffled probe")
    test = orbit.z.flatten(0, 1)
    found = []
    for seed in range(min(SEEDS, drawn.z.shape[1])):
        order = torch.randperm(len(drawn.g), generator=generator).to(drawn.g.device)
        found.append(linear_probe(drawn.z[:, seed], drawn.g[order, seed], test, orbit.group.domain))
    return torch.stack(found).reshape(len(found), *orbit.g.shape)


def linear_probe(z: Tensor, g: Tensor, z_test: Tensor, cyclic: Topology) -> Tensor:
    """g by ridge regression from standardised features: (N,D), (N,), (n,D) -> (n,)."""
    domain = as_domain(cyclic)
    return domain.from_coordinates(fit_probe(z, g, domain)(z_test)).float()


def fit_probe(z: Tensor, g: Tensor, domain: Domain) -> Callable[[Tensor], Tensor]:
    """Ridge regression of g, or of (cos, sin) 2 pi g on the circle, from standardised features: (N,D), (N,).

    The penalty is chosen by leave-one-out error. Returns what predicts from other features, (n,D) -> (n,1) or (n,2).
    """
    from sklearn.linear_model import RidgeCV

    mean = z.mean(0)
    scale = standard_scale(mean, z.std(0))

    def standard(other: Tensor) -> Any:
        return ((other - mean) / scale).double().cpu().numpy()

    model = RidgeCV(alphas=np.logspace(-2, 4, 7)).fit(standard(z), domain.coordinates(g.double()).cpu().numpy())
    return lambda other: torch.from_numpy(model.predict(standard(other)).reshape(len(other), -1))


def _all(z: Tensor) -> Tensor:
    return z
