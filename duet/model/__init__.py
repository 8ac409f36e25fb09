"""A trained model: the Encoder, on disk, on the Hub, as a graph."""

from .artifact import load, load_decoder, save_decoder
from .encoder import Encoder, Reading, training_data
from .fitting import OrbitViews, fit_action, has_spectrum, orbit_views, spectrum_of, transformed_pairs

__all__ = [
    "Encoder",
    "OrbitViews",
    "Reading",
    "fit_action",
    "has_spectrum",
    "load",
    "load_decoder",
    "orbit_views",
    "save_decoder",
    "spectrum_of",
    "training_data",
    "transformed_pairs",
]
