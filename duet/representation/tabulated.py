"""A target as tables: its log masses and what finds its peak on a grid of g, with polynomials between.

Products and gathers on constants only, so that a program that holds it can be exported: no quadrature and no error
function is left in it.
"""

import torch
from torch import Tensor

from .layout import Axis, Flat, Layout, Structured, Table
from .peak import RADIUS, affinity_table, find_peak, grid, interpolate, last_point, likelihood_table
from .target import Estimate, Target, _grid_points, weights

FINER = 4  # log masses are read at any g, not only near a peak: a finer grid than recovery needs


class Tabulated(Target):
    """Stands for `target` at one number of bins: log masses within 1e-5 of it, relative to their size.

    Features are float32; constants are on the CPU.
    """

    def __init__(self, target: Target, bins: int) -> None:
        self.domain = target.domain  # type: ignore[misc]
        self.sigma = target.sigma
        self.points = _grid_points(target)
        self.fine = FINER * self.points
        places = grid(self.points, self.domain)
        tables = {"fit": likelihood_table(target.log_masses, bins, places)}
        tables["match"] = affinity_table(target.log_masses, bins, places)
        self.tables = {
            method: table.float().contiguous() for method, table in tables.items()
        }  # (bins, points and more)
        self.log = target.log_masses(grid(self.fine, self.domain), bins).float().contiguous()  # (points ..., bins)

    def log_masses(self, g: Tensor, bins: int) -> Tensor:
        """log Q_j(g), read off the table: (B,) -> (B, bins); g outside [0, 1] wraps or is clamped."""
        g = self.domain.wrap(g).float() * self.fine
        # The circle's last half step is read from the point before it.
        nearest = g.round().clamp(max=last_point(self.fine, self.domain))
        stencil = torch.arange(2 * RADIUS + 1, device=g.device)
        near = self.log[nearest.long().unsqueeze(-1) + stencil].transpose(-1, -2)  # (B, bins, 2 RADIUS + 1)
        return interpolate(near, (g - nearest)[:, None, None].expand(-1, near.shape[1], 1))

    def _log_masses(self, g: Tensor, bins: int) -> Tensor:
        return self.log_masses(g, bins)

    def difference_masses(self, delta: Tensor, bins: int) -> Tensor:
        raise NotImplementedError("differences are matched in training, not in an exported program")

    def read(self, logits: Tensor, among: Tensor | None = None) -> Estimate:
        """What softmax(logits) matches best, in float32 as the tables are."""
        return self.estimate(logits.softmax(-1), "match", among)

    def _peak(self, masses: Tensor, method: str) -> Tensor:
        return find_peak(weights(masses, method), self.tables[method], self.points)


def tabulated(layout: Layout) -> Layout:
    """The same layout with tables for its targets."""
    if not isinstance(layout, Structured):
        return Flat(layout.dim)
    axes = [Axis(axis.name, axis.bins, Tabulated(axis.target, axis.bins)) for axis in layout.axes]
    if isinstance(layout, Table):
        return Table(layout.rows, axes[0])
    return type(layout)(layout.rows, axes)
