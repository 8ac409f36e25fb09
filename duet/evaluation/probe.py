"""Linear probes: what of an element g can be read off any features by somebody who was told the truth."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..domain import Topology, as_domain
from ..representation.moment import standardise
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
    """g by ridge regression from standardised features, of (cos, sin) 2 pi g on the circle: (N,D), (N,), (n,D) -> (n,).

    The penalty is chosen by leave-one-out error.
    """
    from sklearn.linear_model import RidgeCV

    domain = as_domain(cyclic)
    x, x_test = (part.double().cpu().numpy() for part in standardise(z, z_test))
    model = RidgeCV(alphas=np.logspace(-2, 4, 7)).fit(x, domain.coordinates(g.double()).cpu().numpy())
    predicted = torch.from_numpy(model.predict(x_test).reshape(len(x_test), -1))
    return domain.from_coordinates(predicted).float()


def _all(z: Tensor) -> Tensor:
    return z
