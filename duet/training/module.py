"""The one LightningModule: a step of any method, the optimiser, the schedule, and the batches of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import lightning as L
import torch
from torch import Tensor

from ..data import Images
from ..error import DuetError
from ..groups import Stack
from ..methods import Method
from ..model.checkpoint import as_tensor_like
from ..networks import OnlineHead
from ..objectives import all_gather
from .experiment import Experiment, build_optimizer
from .state import check_counts, check_optimizer, check_schedule, check_weights
from .step import ViewCache, loss_of_batch, parameter_groups, step_seed
from .view_size import ViewSizes

DROPOUT = 0x5DEECE66D
"""Tells the seed of what a network draws from that of the views."""


def learning_rate(step: int, warm: float, total: int) -> float:
    """The share of the highest learning rate: linear to 1 over `warm` steps, then a cosine to 0."""
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1.0, total - warm))))


class Steps:
    """Every batch of the training, one after another over all epochs; a resumed run starts at `start`."""

    def __init__(self, images: Images, experiment: Experiment, rank: int, world: int) -> None:
        self.images, self.seed, self.epochs = images, experiment.seed, experiment.epochs
        self.rank, self.world = rank, world
        self.batch = experiment.joined_batch // world
        self.per_epoch = images.batches_per_epoch(self.batch, world)
        self.start = 0

    def __len__(self) -> int:
        return self.per_epoch * self.epochs

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a batch is a function of its number. That it exists tells Lightning that the loader can go on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        first, skip = divmod(self.start, self.per_epoch)
        for epoch in range(first, self.epochs):
            for images, labels in self.images.batches(
                self.batch, self.seed, epoch, self.rank, self.world, start=skip if epoch == first else 0
            ):
                yield images, torch.full((len(images),), -1) if labels is None else labels


class Pretraining(L.LightningModule):
    """Steps of any method, one after another; and a linear head that only watches."""

    def __init__(self, method: Method, stack: Stack | ViewCache, experiment: Experiment, images: Images) -> None:
        super().__init__()
        self.method = method
        self.stack = stack
        sizes = ViewSizes.parse(experiment.view_size)
        self.sizes = sizes if isinstance(stack, Stack) else None
        self.experiment = experiment
        self.images = images
        self.head = OnlineHead(method.backbone.dim, images.num_classes) if images.num_classes > 1 else None
        self.latest: dict[str, Tensor] = {}
        self.features: Tensor | None = None
        self._start = 0

    def train_dataloader(self) -> Steps:
        """All batches of the run."""
        self.steps = Steps(self.images, self.experiment, self.global_rank, self.trainer.world_size)
        self.steps.start = self._start
        return self.steps

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """The loss of a batch; `latest` keeps its terms, and `features` what they are of."""
        images, labels = batch
        seed = step_seed(self.experiment.seed, index, self.global_rank)
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed ^ DROPOUT)  # what a network itself draws is a function of the step, too
        gather = all_gather if self.trainer.world_size > 1 else None
        self.method.progress = index / len(self.steps)
        watched = (self.head, labels, gather, self.experiment.pieces, self._keep_features)
        loss, self.latest = loss_of_batch(self.method, self._stack_now(), images, generator, *watched)
        return loss

    def _stack_now(self) -> Stack | ViewCache:
        """The stack, at the side that the views have at this part of the training."""
        if self.sizes is None or not isinstance(self.stack, Stack):
            return self.stack
        return self.stack.without(size=self.sizes.at(self.method.progress))

    def _keep_features(self, z: Tensor) -> None:
        self.features = z

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        """A step, and then what the method does after it: here, so that a checkpoint of this step holds both."""
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self.method.after_step(batch_idx // self.experiment.added_batches)

    def configure_optimizers(self) -> Any:
        """Adam or AdamW with warm-up and cosine, as in the paper."""
        e = self.experiment
        optimizer = build_optimizer(parameter_groups(self.method, self.head, e.decay_norms), e)
        per_epoch = self._per_epoch()
        total = math.ceil(per_epoch * e.epochs / e.added_batches)
        warm = e.warmup_epochs * per_epoch / e.added_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, warm, total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Remember how many batches are done, and of what images."""
        checkpoint["batches"] = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        checkpoint["images"] = [len(self.images), self.images.num_classes]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Start after the batches that are done, if the images are still the same."""
        now = [len(self.images), self.images.num_classes]
        before = checkpoint.get("images", now)
        if before != now:
            pair = isinstance(before, list) and len(before) == 2 and all(isinstance(count, int) for count in before)
            began = f"{before[0]} images of {before[1]} classes" if pair else "other images"
            raise DuetError(
                f"this run began with {began}, and now there are {now[0]} of {now[1]}; restore them, or begin a new run"
            )
        try:
            self._check(checkpoint)
        except DuetError as error:
            raise DuetError(f"cannot go on from {self.trainer.ckpt_path}: {error}") from None
        self._start = int(checkpoint["batches"])
        # The last batch of a run is not the last of a longer one; where it is, Lightning sees so by its number.
        checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"] = False

    def _check(self, checkpoint: dict[str, Any]) -> None:
        """Refuse what is not a checkpoint of this run."""
        made = self.configure_optimizers()
        batches = self._per_epoch() * self.experiment.epochs
        check_weights(checkpoint, self)
        check_counts(checkpoint, self.trainer.fit_loop.state_dict(), batches)
        check_optimizer(checkpoint, made["optimizer"], batches)
        check_schedule(checkpoint, made["lr_scheduler"]["scheduler"], batches)

    def _per_epoch(self) -> int:
        world = self.trainer.world_size
        return self.images.batches_per_epoch(self.experiment.joined_batch // world, world)

    def on_train_start(self) -> None:
        """Go on by the schedule of this run, which may be longer than before, and as the optimiser would have.

        The restored state gets the memory order of its parameters, so that it rounds alike.
        """
        for config in self.trainer.lr_scheduler_configs:
            schedule = config.scheduler
            assert isinstance(schedule, torch.optim.lr_scheduler.LambdaLR)
            shares = [share(schedule.last_epoch) for share in schedule.lr_lambdas]
            for group, base, share in zip(schedule.optimizer.param_groups, schedule.base_lrs, shares, strict=True):
                group["lr"] = base * share
        for optimizer in self.trainer.optimizers:
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    state[key] = as_tensor_like(value, parameter) if isinstance(value, Tensor) else value
