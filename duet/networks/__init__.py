"""Networks: backbones by name and the heads of pre-training."""

from .encoder import ENCODERS, Backbone, build_backbone, wrap
from .projector import OnlineHead, Predictor, Projector

__all__ = ["ENCODERS", "Backbone", "OnlineHead", "Predictor", "Projector", "build_backbone", "wrap"]
