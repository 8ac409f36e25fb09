"""What a trained encoder can do: every evaluation takes a Context (who, on which images, how much) to a Result."""

from .classification import classify, transfer
from .context import SIZES, Context, Sizes, Sweep
from .recovery import recover_elements
from .result import Result, difference
from .subject import Inapplicable, Subject, as_subject, load_subject

__all__ = [
    "SIZES",
    "Context",
    "Inapplicable",
    "Result",
    "Sizes",
    "Subject",
    "Sweep",
    "as_subject",
    "classify",
    "difference",
    "load_subject",
    "recover_elements",
    "transfer",
]
