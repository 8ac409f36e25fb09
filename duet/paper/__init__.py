"""What the paper measures and shows beyond the evaluations of one encoder: costs, and the demo."""

from ..evaluation import evaluate
from .cost import Cost

__all__ = ["Cost", "evaluate"]
