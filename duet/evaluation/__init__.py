"""What a trained encoder can do: every evaluation takes a Context (who, on which images, how much) to a Result."""

from .classification import classify, transfer
from .context import SIZES, Context, Sizes, Sweep
from .cost import measure_cost, tabulate_cost
from .dependence import measure_dependence
from .equivariance import map_equivariance
from .marginals import measure_ambiguity
from .recovery import recover_elements
from .result import Result, difference
from .retrieval import retrieve
from .subject import Inapplicable, Subject, as_subject, load_subject
from .suite import EVALUATIONS, evaluate, flatten, open_context, open_encoder_context, results_folder, table

__all__ = [
    "EVALUATIONS",
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
    "evaluate",
    "flatten",
    "load_subject",
    "map_equivariance",
    "measure_ambiguity",
    "measure_cost",
    "measure_dependence",
    "open_context",
    "open_encoder_context",
    "recover_elements",
    "results_folder",
    "retrieve",
    "table",
    "tabulate_cost",
    "transfer",
]
