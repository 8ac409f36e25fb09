"""The objectives: contrast of contents and match of marginals, one file each."""

from ..discovery import import_files
from .barlow_twins import barlow_twins
from .contrast import OBJECTIVES, Contrast, Gather, contrast_views, find_objective, register_objective
from .gather import all_gather
from .jensen_shannon import jensen_shannon
from .nt_xent import nt_xent
from .sigreg import sigreg
from .tcr import tcr
from .vicreg import vicreg

import_files(__name__, __path__)

__all__ = [
    "OBJECTIVES",
    "Contrast",
    "Gather",
    "all_gather",
    "barlow_twins",
    "contrast_views",
    "find_objective",
    "jensen_shannon",
    "nt_xent",
    "register_objective",
    "sigreg",
    "tcr",
    "vicreg",
]
