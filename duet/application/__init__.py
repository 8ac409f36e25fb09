"""What people do with a trained model and files of their own: embed them, turn them upright."""

from .embedding import embed_files
from .orientation import orient_files

__all__ = ["embed_files", "orient_files"]
