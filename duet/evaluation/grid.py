"""Which elements an evaluation goes through."""

from __future__ import annotations

import torch
from torch import Tensor

from ..groups import Group

BETWEEN = 16  # places of a finite group's decoded sweep; quarters and eighths of the circle are among them


def sweep_elements(group: Group, n: int) -> Tensor:
    """All elements of a finite group; n of a continuous one, evenly over what training draws: (n,)."""
    if group.elements is not None:
        return torch.tensor(sorted(group.elements))
    return group.domain.grid(n, group.drawn_range())


def orbit_elements(group: Group, n: int, images: int, generator: torch.Generator) -> Tensor:
    """For every image n even steps over what training draws, from a random offset; all elements if finite: (n,N)."""
    if group.elements is not None:
        return torch.tensor(sorted(group.elements)).unsqueeze(1).expand(-1, images).contiguous()
    low, high = group.drawn_range()
    places = (torch.arange(n).unsqueeze(1) + torch.rand(images, generator=generator)) / n
    return low + (high - low) * places.clamp(max=1 - 1e-6)


def orbit_centres(group: Group, n: int) -> Tensor:
    """The middles of those steps over all images; a finite group's elements: (n,)."""
    if group.elements is not None:
        return torch.tensor(sorted(group.elements))
    low, high = group.drawn_range()
    return low + (high - low) * (torch.arange(n) + 0.5) / n


def elements_through_identity(group: Group, n: int) -> Tensor:
    """The same, so that on the circle the untouched image is among them; on the interval n + 1, from end to end."""
    if group.elements is not None:
        return torch.tensor(sorted(group.elements))
    if group.cyclic:
        return (group.identity + group.domain.grid(n)).remainder(1).sort().values
    low, high = group.drawn_range()
    return torch.linspace(round(low, 2), round(high, 2), n + 1)


def decoded_elements(group: Group, n: int) -> tuple[Tensor, Tensor]:
    """The elements of a decoded sweep, and the places of true ones in it: a finite group is swept between them too."""
    if group.elements is not None:
        return elements_and_between(group, BETWEEN)
    g = elements_through_identity(group, n)
    return g, torch.arange(len(g))


def elements_and_between(group: Group, n: int) -> tuple[Tensor, Tensor]:
    """A grid that also goes between a finite group's elements, and the places of true elements in it: (m,), (k,)."""
    g = sweep_elements(group, n)
    if group.elements is None:
        return g, torch.arange(len(g))
    whole = torch.unique(torch.cat([group.domain.grid(n), g]))
    return whole, torch.searchsorted(whole, g)
