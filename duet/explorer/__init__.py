"""A trained model -> a local web page: pick an image, see P(g|x), move g, look at the neighbours."""

from .page import explore

__all__ = ["explore"]
