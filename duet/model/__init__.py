"""A trained model: the Encoder, on disk, on the Hub, as a graph."""

from .artifact import load, load_decoder, save_decoder
from .calibration import fit_confidence
from .confidence import Confidence
from .encoder import Encoder, training_data
from .fitting import fit_action, transformed_pairs
from .reading import Reading

__all__ = [
    "Confidence",
    "Encoder",
    "Reading",
    "fit_action",
    "fit_confidence",
    "load",
    "load_decoder",
    "save_decoder",
    "training_data",
    "transformed_pairs",
]
