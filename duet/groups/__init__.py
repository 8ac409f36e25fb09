"""The image side: what is done to pixels, and the parameter g in [0, 1] that says how much."""

from ..discovery import import_files
from .blur import Blur
from .geometric import Geometric, Rotation, Scale, rot360
from .group import GROUPS, Group, find_group, register_group
from .views import Drawn, Jitter, Stack, Stage, View

import_files(__name__, __path__)

__all__ = [
    "GROUPS",
    "Blur",
    "Drawn",
    "Geometric",
    "Group",
    "Jitter",
    "Rotation",
    "Scale",
    "Stack",
    "Stage",
    "View",
    "find_group",
    "register_group",
    "rot360",
]
