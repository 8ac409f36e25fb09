"""The paper's transfer: features of one set on others, with and without structure for rotation and colour."""

from __future__ import annotations

from typing import Any

from .measured import Measured
from .reproduction import Request, register

SETS = {
    "cpu": ("caltech101", "cifar100", "dtd10", "pets", "flowers102", "food101"),
    "paper": ("caltech101", "cifar100", "dtd", "pets", "flowers102", "food101"),
}
"""At the scale of a CPU they lie in $DUET_DATA, reduced to 32 x 32."""


@register
class Transfers(Measured):
    """Logistic regression on other sets, of SimCLR and DUET."""

    name = "transfer"
    summary = "logistic regression on the features of other sets of images, SimCLR and DUET"
    evaluate = ("transfer",)
    scalars = tuple(dict.fromkeys(f"transfer/{name}/logistic" for names in SETS.values() for name in names))
    groups = ("rot360", "rot4", "grayscale", "hue")
    methods = ("simclr", "duet")

    def values(self, request: Request) -> dict[str, Any]:
        """The other sets, too, and baselines."""
        return {**super().values(request), "transfer": list(SETS[request.scale]), "baselines": True}
