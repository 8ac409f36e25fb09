"""SimCLR: the two views' features are contrasted, and nothing else."""

from __future__ import annotations

from torch import Tensor

from .method import Gather, Method, Represented, Views


class SimCLR(Method):
    """L = NT-Xent(h(z_1), h(z_2)) on unstructured features."""

    def terms(self, represented: Represented, views: Views, gather: Gather | None = None) -> dict[str, Tensor]:
        """The contrast alone."""
        return {"content": self.contrast(represented.z, gather)}
