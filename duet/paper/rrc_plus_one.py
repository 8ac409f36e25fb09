"""Table 2 and Figure 4 of the paper: a crop and one transformation, ten of them, four methods."""

from __future__ import annotations

from typing import Any

from .accuracy import DUET_0, ESSL_AUTHORS, GROUPS, NO_CROP_LEFT, SAME_TARGETS, SEPARATE, Accuracy, numbers
from .reproduction import Request, register

PAPER = {
    "cifar100": numbers("""
simclr 38.89/0.26 32.17/0.14 35.52/0.33 39.85/0.13 36.68/0.27 47.41/0.40 45.00/0.26 44.51/0.04 42.27/0.70 43.61/0.19
essl - 38.03/0.36 44.36/0.72 38.78/0.54 42.17/0.87 34.20/0.60 38.33/0.25 38.66/0.02 38.92/0.08 37.64/0.39
duet0 42.63/0.11 34.77/0.72 38.28/0.19 43.54/0.67 40.10/0.82 48.87/0.18 48.12/0.19 47.74/0.57 45.39/0.34 46.32/0.61
duet 45.25/0.10 42.17/0.42 47.25/0.26 41.82/0.46 45.38/0.73 50.91/0.49 50.18/0.45 49.77/0.46 48.75/0.22 48.54/0.78
"""),
    "tiny-imagenet": numbers("""
simclr 26.91/0.13 21.34/0.08 24.40/0.24 27.90/0.37 26.74/0.30 31.35/1.29 29.95/0.14 29.68/0.18 28.60/0.29 28.20/0.40
essl - 25.35/0.10 30.41/0.25 27.13/0.14 29.11/0.27 23.51/0.18 26.45/0.07 26.32/0.61 26.75/0.72 26.00/0.11
duet0 29.57/0.47 24.22/0.30 26.96/0.37 30.78/0.23 28.98/0.42 31.55/0.14 32.54/0.18 32.23/0.17 31.43/0.24 30.45/0.60
duet 31.26/0.21 27.78/0.24 31.55/0.28 30.34/0.59 31.71/0.53 34.92/0.24 33.96/0.16 34.20/0.34 33.42/0.35 32.64/0.03
"""),
}
REPEATED = ("rot360", "vflip", "grayscale", "hue", "hflip")
"""Groups on which claims rest: they have further seeds of SimCLR and DUET."""
DUET_100: dict[str, Any] = {"name": "duet100", "method": "duet", "weight": 100}
"""The lambda of the smaller recipes; the paper's is 1000 for rotations."""
MEASURED = ("classification", "rank", "recovery", "equivariance", "spectrum", "retrieval")


@register
class RrcPlusOne(Accuracy):
    """SimCLR, ESSL, DUET without and with its group loss, under a crop and one transformation."""

    name = "rrc-plus-one"
    summary = "Table 2: a crop and one of ten transformations; SimCLR, ESSL, DUET with lambda 0, DUET"
    paper = PAPER
    nearest = "cifar100"
    titles = {
        **{"simclr": "SimCLR", "essl": "ESSL", "essl-authors": "ESSL, its authors' targets"},
        **{"duet0": "DUET, lambda 0", "duet": "DUET", "duet100": "DUET, lambda 100"},
        "duet-separate": "DUET, views apart",
    }

    def values(self, request: Request) -> dict[str, Any]:
        """Ten groups by the paper's four methods and ours; where the group is left out, scale would leave no crop."""
        if request.scale == "cifar":
            return self._decided(self.seeds(request))
        large = request.scale == "paper"
        return {
            "base": {"preset": request.preset},
            "vary": {
                **({"data": ["cifar10", "cifar100", "tiny-imagenet"]} if large else {}),
                "group": list(GROUPS),
                "method": ["simclr", "essl", DUET_0, "duet", SEPARATE, ESSL_AUTHORS],
            },
            "skip": [NO_CROP_LEFT, SAME_TARGETS],
        }

    def _decided(self, seeds: int) -> dict[str, Any]:
        """The paper's four methods at its lambda; further seeds where its claims rest on SimCLR and DUET alone.

        Every run is measured once, with all that later tables need.
        """
        later = [str(seed) for seed in range(1, seeds)]
        return {
            "base": {"preset": "cifar"},
            "vary": {"group": list(GROUPS), "method": ["simclr", "duet", "essl", DUET_0, DUET_100]},
            "skip": [
                {"method": "essl", "group": "scale"},
                {"method": DUET_100["name"], "group": [group for group in GROUPS if group != "rot360"]},
                *({"seed": later, "method": name} for name in ("essl", DUET_0["name"], DUET_100["name"]) if later),
                *({"seed": later, "group": [g for g in GROUPS if g not in REPEATED]} for _ in later[:1]),
            ],
            "evaluate": list(MEASURED),
            "baselines": True,
        }
