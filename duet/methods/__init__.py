"""The methods: DUET (lambda = 0 is `Duet(weight=0)`), SimCLR and ESSL, with one interface."""

from .duet import Duet
from .essl import ESSL
from .method import Method, Represented, Views
from .simclr import SimCLR

__all__ = ["ESSL", "Duet", "Method", "Represented", "SimCLR", "Views"]
