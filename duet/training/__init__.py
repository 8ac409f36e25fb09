"""Training: the configuration of a run, one LightningModule for every method, a run that can be stopped at any moment."""

from .experiment import Experiment
from .keeper import Diverged, Stopped
from .module import Pretraining, learning_rate
from .run import free_folder, resume, train
from .step import loss_of_batch, parameter_groups, step_seed

__all__ = [
    "Diverged",
    "Experiment",
    "Pretraining",
    "Stopped",
    "free_folder",
    "learning_rate",
    "loss_of_batch",
    "parameter_groups",
    "resume",
    "step_seed",
    "train",
]
