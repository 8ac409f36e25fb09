"""The methods: DUET (lambda = 0 is `Duet(weight=0)`), SimCLR and ESSL, with one interface."""

from ..discovery import import_files
from .duet import Duet
from .essl import ESSL
from .method import METHODS, Method, Parts, Represented, Views, find_method, register_method
from .simclr import SimCLR

import_files(__name__, __path__)

__all__ = [
    "ESSL",
    "METHODS",
    "Duet",
    "Method",
    "Parts",
    "Represented",
    "SimCLR",
    "Views",
    "find_method",
    "register_method",
]
