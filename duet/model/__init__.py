"""A trained model: the Encoder, on disk, on the Hub, as a graph."""

from .artifact import load, load_decoder, save_decoder
from .calibration import fit_confidence
from .confidence import Confidence
from .encoder import Encoder
from .fitting import OrbitViews, fit_action, has_spectrum, orbit_views, spectrum_of, transformed_pairs
from .provenance import training_data
from .reading import Reading

__all__ = [
    "Confidence",
    "Encoder",
    "OrbitViews",
    "Reading",
    "fit_action",
    "fit_confidence",
    "has_spectrum",
    "load",
    "load_decoder",
    "orbit_views",
    "save_decoder",
    "spectrum_of",
    "training_data",
    "transformed_pairs",
]
