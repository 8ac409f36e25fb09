"""What people do with a trained model and files of their own: embed them, turn them upright, align them."""

from .aligned_files import align_files
from .alignment import Alignment, align
from .embedding import embed_files
from .orientation import orient_files

__all__ = ["Alignment", "align", "align_files", "embed_files", "orient_files"]
