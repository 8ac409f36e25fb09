"""Networks: backbones by name, necks on frozen pretrained trunks, and the heads of pre-training."""

from .backbone import BACKBONES, Backbone, build_backbone, wrap
from .heads import OnlineHead, Predictor, Projector
from .neck import NECKS, OnTrunk, TrunkBackbone, build_on_trunk
from .trunk import Trunk, build_trunk

__all__ = [
    "BACKBONES",
    "NECKS",
    "Backbone",
    "OnTrunk",
    "OnlineHead",
    "Predictor",
    "Projector",
    "Trunk",
    "TrunkBackbone",
    "build_backbone",
    "build_on_trunk",
    "build_trunk",
    "wrap",
]
