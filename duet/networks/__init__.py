"""Networks: backbones by name and the heads of pre-training."""

from .backbone import BACKBONES, Backbone, build_backbone, wrap
from .heads import OnlineHead, Predictor, Projector

__all__ = ["BACKBONES", "Backbone", "OnlineHead", "Predictor", "Projector", "build_backbone", "wrap"]
