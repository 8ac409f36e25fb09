"""Table 3 of the paper: the full SimCLR stack with a transformation to keep, and SimCLR with and without it."""

from __future__ import annotations

from typing import Any

from .accuracy import DUET_0, ESSL_AUTHORS, GROUPS, LATE, SAME_TARGETS, SEPARATE, Accuracy, numbers
from .reproduction import Request, register

FEW = ("rot360", "rot4", "hflip", "hue")
"""The groups at the scale of a CPU."""
WITHOUT: dict[str, Any] = {"name": "simclr-without", "method": "simclr", "options": {"leave_out": True}}
PAPER = {
    "cifar10": numbers("""
simclr 87.42/0.01 79.90/0.50 81.50/0.44 87.48/0.06 82.78/0.23 87.41/0.03 87.51/0.11 87.57/0.19 87.49/0.08 87.67/0.34
essl - 86.55/0.13 89.33/0.32 84.78/0.40 86.66/0.21 83.59/0.43 85.78/0.25 86.31/0.16 87.12/0.30 86.39/0.44
duet0 87.50/0.20 79.05/0.37 81.32/0.18 87.73/0.19 82.66/0.14 87.69/0.17 87.47/0.13 87.34/0.20 87.54/0.33 87.63/0.20
duet 87.22/0.10 81.70/0.30 83.49/0.16 85.64/0.08 83.84/0.22 87.40/0.08 86.97/0.22 87.05/0.37 87.52/0.19 87.97/0.11
"""),
    "cifar100": numbers("""
simclr 61.40/0.17 56.40/0.30 57.32/0.03 61.48/0.28 56.73/0.48 61.43/0.21 61.31/0.05 61.68/0.57 61.57/0.41 61.30/0.03
essl - 58.32/0.06 63.28/0.28 55.22/0.29 57.18/0.18 55.10/0.47 57.92/0.38 58.06/0.58 60.25/0.34 58.91/0.30
duet0 62.13/0.13 55.49/0.22 57.79/0.40 62.25/0.34 56.88/0.18 62.32/0.26 62.39/0.27 62.47/0.16 62.54/0.20 62.29/0.29
duet 62.17/0.28 55.66/0.39 58.01/0.31 59.62/0.11 57.40/0.15 62.18/0.51 62.24/0.31 61.90/0.72 62.67/0.19 63.31/0.21
"""),
    "tiny-imagenet": numbers("""
simclr 42.16/0.16 37.35/0.19 39.23/0.15 42.31/0.06 39.35/0.09 42.11/0.23 42.32/0.08 42.34/0.10 42.27/0.01 42.46/0.27
essl - 37.53/0.21 42.86/0.29 36.25/0.13 37.18/0.77 35.50/0.30 37.94/0.13 38.66/0.50 40.55/0.74 40.49/0.05
duet0 43.07/0.11 36.28/0.95 39.54/0.41 42.43/0.33 38.87/0.40 42.79/0.16 42.61/0.34 42.98/0.08 42.86/0.30 42.90/0.46
duet 43.56/0.54 38.06/0.06 40.03/0.28 40.43/0.21 39.36/0.50 42.55/1.27 43.41/0.01 43.71/0.07 44.13/0.57 44.61/0.10
"""),
}


@register
class FullStack(Accuracy):
    """SimCLR, ESSL and DUET under the full stack. SimCLR without the group is ours: ESSL's contrast has none either."""

    name = "full-stack"
    summary = "Table 3: the full SimCLR stack; SimCLR without and with the group, ESSL, DUET"
    paper = PAPER
    nearest = "cifar10"
    titles = {
        "simclr-without": "SimCLR, group left out",
        **{"simclr": "SimCLR", "essl": "ESSL", "essl-authors": "ESSL, its authors' targets"},
        **{"duet0": "DUET, lambda 0", "duet": "DUET"},
        **{"duet-separate": "DUET, views apart", "duet-late": "DUET, views apart, full size last"},
    }

    def values(self, request: Request) -> dict[str, Any]:
        """Four groups at the scale of a CPU; the paper's ten, three sets and lambda 0 at its own."""
        if request.scale == "paper":
            return {
                "base": {"preset": "paper-full-stack"},
                "vary": {
                    "data": ["cifar10", "cifar100", "tiny-imagenet"],
                    "group": list(GROUPS),
                    "method": [WITHOUT, "simclr", "essl", DUET_0, "duet", SEPARATE, LATE, ESSL_AUTHORS],
                },
                "skip": [
                    {"method": ["essl", "simclr-without", "duet-separate", "duet-late"], "group": "scale"},
                    SAME_TARGETS,
                ],
            }
        return {
            "base": {"preset": request.preset, "stack": "full"},
            "vary": {"group": list(FEW), "method": [WITHOUT, "simclr", "essl", "duet", SEPARATE, LATE, ESSL_AUTHORS]},
            "skip": [{"method": "essl-authors", "group": ["rot4", "hflip"]}],
        }
