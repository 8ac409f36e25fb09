"""The network of a run as one module: a method, the linear head that monitors it, and the loss of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data import Images
from ..groups import Stack
from ..methods import Method
from ..networks import OnlineHead
from ..objectives import Gather
from .experiment import Experiment
from .step import ViewCache, loss_of_batch, step_seed
from .view_size import ViewSizes

DROPOUT = 0x5DEECE66D
"""Separates the seed of what a network draws from that of the views."""


class Pretraining(nn.Module):
    """`forward` is one training step up to its loss, so that DistributedDataParallel wraps all of it."""

    def __init__(self, method: Method, stack: Stack | ViewCache, experiment: Experiment, images: Images) -> None:
        super().__init__()
        self.method = method
        self.stack = stack
        sizes = ViewSizes.parse(experiment.view_size)
        self.sizes = sizes if isinstance(stack, Stack) else None
        self.experiment = experiment
        self.head = OnlineHead(method.backbone.dim, images.num_classes) if images.num_classes > 1 else None
        self.gather: Gather | None = None
        self.rank = 0
        self.latest: dict[str, Tensor] = {}
        self.features: Tensor | None = None

    def forward(self, images: Tensor, labels: Tensor, batch: int, progress: float) -> Tensor:
        """The loss of a batch, by its number; `latest` keeps its terms and `features` the features behind them."""
        e = self.experiment
        seed = step_seed(e.seed, batch, self.rank)
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed ^ DROPOUT)  # what the network itself draws is a function of the step, too
        self.method.progress = progress
        watched = (self.head, labels, self.gather, e.pieces, self._keep_features)
        loss, self.latest = loss_of_batch(self.method, self._stack_now(), images, generator, *watched)
        return loss / e.added_batches

    def _stack_now(self) -> Stack | ViewCache:
        """The stack, with the view size of this part of the training."""
        if self.sizes is None or not isinstance(self.stack, Stack):
            return self.stack
        return self.stack.without(size=self.sizes.at(self.method.progress))

    def _keep_features(self, z: Tensor) -> None:
        self.features = z
