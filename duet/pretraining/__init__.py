"""Training: one LightningModule for every method, and a run that can be stopped at any moment."""

from .keeping import Diverged, Stopped
from .module import Pretraining, learning_rate, step_seed
from .run import pretrain, resume

__all__ = ["Diverged", "Pretraining", "Stopped", "learning_rate", "pretrain", "resume", "step_seed"]
