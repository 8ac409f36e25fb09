"""The image side: what is done to pixels, and the parameter g in [0, 1] that says how much."""

from .blur import Blur
from .color import Brightness, Contrast, Grayscale, Hue, Saturation
from .geometric import Flip, Geometric, Rotation, Scale, rot4, rot360
from .group import GROUPS, Group, find_group, register_group
from .views import Drawn, Jitter, Stack, Stage, View

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

for _group in (
    rot4(),
    rot360(),
    Flip("hflip", horizontal=True),
    Flip("vflip", horizontal=False),
    Grayscale(),
    Brightness(),
    Contrast(),
    Saturation(),
    Hue(),
    Scale(),
):
    register_group(_group)
