"""A trained model: the Encoder, on disk, on the Hub, as a graph."""

from .artifact import load, load_decoder, save_decoder
from .encoder import Encoder, Reading, training_data
from .fitting import fit_action, transformed_pairs

__all__ = [
    "Encoder",
    "Reading",
    "fit_action",
    "load",
    "load_decoder",
    "save_decoder",
    "training_data",
    "transformed_pairs",
]
