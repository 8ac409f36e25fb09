"""The feature side: pure functions on (B, dim) tensors that know bins and nothing of pixels."""

from .action import Action
from .bound import equivariance_bound, lipschitz_action
from .features import Representation
from .fitted import FittedAction
from .layout import Axis, Concatenated, Flat, Joint, Layout, Table, layout_from_dict
from .prescribed import Prescribed, act, recover, shift
from .spectrum import Spectrum
from .storage import RawScale
from .target import Estimate, Gaussian, Target, VonMises, difference, target_from_dict

ACTIONS: tuple[type[Action], ...] = (Prescribed, FittedAction, Spectrum)
"""Every kind of action, in the order in which they are shown."""

__all__ = [
    "ACTIONS",
    "Action",
    "Axis",
    "Concatenated",
    "Estimate",
    "FittedAction",
    "Flat",
    "Gaussian",
    "Joint",
    "Layout",
    "Prescribed",
    "RawScale",
    "Representation",
    "Spectrum",
    "Table",
    "Target",
    "VonMises",
    "act",
    "difference",
    "equivariance_bound",
    "layout_from_dict",
    "lipschitz_action",
    "recover",
    "shift",
    "target_from_dict",
]
