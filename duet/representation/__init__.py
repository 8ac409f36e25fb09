"""The feature side: pure functions on (B, dim) tensors that know bins and nothing of pixels."""

from .action import act, recover, shift
from .layout import Axis, Concatenated, Flat, Joint, Layout, Table, layout_from_dict
from .target import Estimate, Gaussian, Target, VonMises, difference, target_from_dict

__all__ = [
    "Axis",
    "Concatenated",
    "Estimate",
    "Flat",
    "Gaussian",
    "Joint",
    "Layout",
    "Table",
    "Target",
    "VonMises",
    "act",
    "difference",
    "layout_from_dict",
    "recover",
    "shift",
    "target_from_dict",
]
