"""What a trained encoder can do: every evaluation takes a Context (who, on which images, how much) to a Result."""

from ..discovery import import_files
from .context import SIZES, Context, Sizes, Sweep
from .evaluation import EVALUATIONS, Claim, Evaluation, Inapplicable, register_evaluation
from .result import Result, difference
from .subject import Subject, as_subject, load_subject
from .suite import evaluate, flatten, open_context, open_encoder_context, results_folder, table

import_files(__name__, __path__)

__all__ = [
    "EVALUATIONS",
    "SIZES",
    "Claim",
    "Context",
    "Evaluation",
    "Inapplicable",
    "Result",
    "Sizes",
    "Subject",
    "Sweep",
    "as_subject",
    "difference",
    "evaluate",
    "flatten",
    "load_subject",
    "open_context",
    "open_encoder_context",
    "register_evaluation",
    "results_folder",
    "table",
]
