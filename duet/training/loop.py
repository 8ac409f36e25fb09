"""The training loop, from the first batch to the last. Fabric brings devices, precision and processes."""

from __future__ import annotations

import csv
import io
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from lightning.fabric import Fabric
from lightning.pytorch.plugins.layer_sync import TorchSyncBatchNorm
from torch import Tensor

from ..data import Images
from ..error import DuetError
from ..file import write_text
from ..objectives import all_gather
from .checkpoint import load_checkpoint, save_checkpoint
from .experiment import Experiment, build_optimizer
from .module import Pretraining
from .step import parameter_groups

CHECKPOINT = Path("checkpoints", "last.safetensors")
SYNC_EVERY = 8
"""Steps between two exchanges of stop requests among processes: a stop may wait that long, no step waits for one."""
CHECKPOINT_SECONDS = 10.0
"""An epoch that ends this long after the last checkpoint writes one."""


class Stopped(Exception):
    """The user asked to stop; the run can be resumed."""


class Diverged(DuetError):
    """A term of the loss is no longer a finite number."""


class Observer(Protocol):
    """Looks at a training without changing it."""

    def begin(self, loop: Loop) -> None:
        """Before the first step."""

    def after_batch(self, loop: Loop, done: int) -> None:
        """After `done` batches of the run."""

    def end(self) -> None:
        """After the last step, also after an error."""


def learning_rate(step: int, warm: float, total: int) -> float:
    """The share of the highest learning rate: linear to 1 over `warm` steps, then a cosine to 0."""
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1.0, total - warm))))


class Batches:
    """Every batch of a run, a function of its number; a resumed run starts at `start`."""

    def __init__(self, images: Images, experiment: Experiment, rank: int = 0, world: int = 1) -> None:
        self.images, self.seed, self.epochs = images, experiment.seed, experiment.epochs
        self.rank, self.world = rank, world
        self.size = experiment.joined_batch // world
        self.per_epoch = images.batches_per_epoch(self.size, world)
        self.start = 0

    def __len__(self) -> int:
        return self.per_epoch * self.epochs

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        first, skip = divmod(self.start, self.per_epoch)
        for epoch in range(first, self.epochs):
            for images, labels in self.images.batches(
                self.size, self.seed, epoch, self.rank, self.world, start=skip if epoch == first else 0
            ):
                yield images, torch.full((len(images),), -1) if labels is None else labels


class Loop:
    """One training in one folder: metrics.csv every quarter of an epoch, and checkpoints to resume from."""

    def __init__(
        self,
        fabric: Fabric,
        module: Pretraining,
        images: Images,
        run: Path,
        *,
        checkpoint_every: int | None = None,
        begin: Callable[[], None] = lambda: None,
        observers: Sequence[Observer] = (),
        logger: Any = None,
    ) -> None:
        if checkpoint_every is not None and checkpoint_every < 1:
            raise DuetError(f"--checkpoint-every counts steps and starts at 1; it is {checkpoint_every}")
        self.fabric, self.module, self.experiment, self.images = fabric, module, module.experiment, images
        self.run, self.every, self.begin_run = run, checkpoint_every, begin
        self.observers, self.logger = observers, logger
        self.checkpoint = run / CHECKPOINT
        self.asked_to_stop = False
        self.due = False
        self.unchecked: list[tuple[int, dict[str, Tensor]]] = []

    def train(self) -> None:
        """From the first batch, or the one after the checkpoint, to the last; Stopped after a signal."""
        self._set_up()
        with self._signals_noted():
            try:
                self._begin()
                for batch, (images, labels) in enumerate(self.batches, self.batches.start):
                    self._step(batch, images, labels)
                    done, last = batch + 1, batch + 1 == len(self.batches)
                    self._log(done, last)
                    self._save_or_stop(done, last)
                    self._observe(done)
            finally:
                self._end()
        if self.asked_to_stop and self.fabric.world_size == 1:
            raise Stopped(f"stopped after the last step; finish with: duet train --resume {self.run}")

    def _set_up(self) -> None:
        """Processes, device, optimiser, and the state of the checkpoint where there is one."""
        fabric, module, e = self.fabric, self.module, self.experiment
        fabric.launch()
        self.batches = Batches(self.images, e, fabric.global_rank, fabric.world_size)
        module.rank, module.gather = fabric.global_rank, all_gather if fabric.world_size > 1 else None
        if e.sync_batchnorm and fabric.world_size > 1:
            TorchSyncBatchNorm().apply(module)
        module.to(fabric.device)
        optimizer = build_optimizer(parameter_groups(module.method, module.head, e.decay_norms), e)
        self.rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.steps = math.ceil(len(self.batches) / e.added_batches)
        self.warm = e.warmup_epochs * self.batches.per_epoch / e.added_batches
        self.optimizer = optimizer
        self.forward, self.stepping = fabric.setup(module, optimizer)
        if self.checkpoint.exists():
            saved = load_checkpoint(self.checkpoint, module, optimizer, self._identity(), len(self.batches))
            self.batches.start, scaler = saved
            fabric.strategy.precision.load_state_dict(scaler)
        self.step = math.ceil(self.batches.start / e.added_batches)

    def _begin(self) -> None:
        """Write what the run is, now that everything is restored."""
        if self.fabric.is_global_zero:
            self.begin_run()
        self.metrics = Metrics(self.run / "metrics.csv", self.batches.start) if self.fabric.is_global_zero else None
        self.log_every = max(1, self.batches.per_epoch // 4)
        self.saved = time.monotonic()
        self.module.train()
        if self.fabric.is_global_zero:
            for observer in self.observers:
                observer.begin(self)

    def _step(self, batch: int, images: Tensor, labels: Tensor) -> None:
        """Forward and backward of a batch; where its gradients are complete, a step of the optimiser."""
        added = self.experiment.added_batches
        complete = (batch + 1) % added == 0 or batch + 1 == len(self.batches)
        if batch % added == 0:
            self._set_rate()
        images, labels = self.fabric.to_device((images, labels))
        with self.fabric.no_backward_sync(self.forward, enabled=not complete):
            loss = self.forward(images, labels, batch, batch / len(self.batches))
            self.fabric.backward(loss)
        if complete:
            self.stepping.step()
            self.stepping.zero_grad()
            # Before any checkpoint, so that it holds what the method changes too.
            self.module.method.after_step(batch // added)
            self.step += 1

    def _set_rate(self) -> None:
        share = learning_rate(self.step, self.warm, self.steps)
        for group, highest in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = highest * share

    def _log(self, done: int, last: bool) -> None:
        """Check the terms; write a row of metrics where one is due."""
        self.unchecked.append((done, self.module.latest))
        row_due = done % self.log_every == 0 or last
        if self.fabric.device.type == "cpu" or row_due:  # elsewhere reading a number waits for the device
            self._check_terms()
        if row_due and self.metrics is not None:
            rate = self.rates[0] * learning_rate(self.step, self.warm, self.steps)
            row: dict[str, Any] = {"epoch": (done - 1) // self.batches.per_epoch, "lr": rate, **self.module.latest}
            self.metrics.add({"step": done, **row})
            if self.logger is not None:
                self.logger.log_metrics({name: float(value) for name, value in row.items()}, step=done)

    def _save_or_stop(self, done: int, last: bool) -> None:
        """Write a checkpoint where one is due; raise Stopped where a signal has asked for it."""
        self.due = self.due or self._is_due(done)
        if done % self.experiment.added_batches and not last:
            return  # gradients that are still added up are in no checkpoint
        stop, save = self._agree(done, last)
        if save:
            self._save(done)
        if stop:
            raise Stopped(f"stopped at step {done} of {len(self.batches)}; go on with: duet train --resume {self.run}")

    def _is_due(self, done: int) -> bool:
        if self.every is not None:
            return done % self.every == 0
        return done % self.batches.per_epoch == 0 and time.monotonic() - self.saved >= CHECKPOINT_SECONDS

    def _agree(self, done: int, last: bool) -> tuple[bool, bool]:
        """Whether to stop and whether to save, the same in every process: one number, now and then."""
        stop, save = self.asked_to_stop, self.due or last
        if self.fabric.world_size > 1:
            certain = last or (self.due and self.every is not None)  # that steps are done, every process knows
            if (done // self.experiment.added_batches) % SYNC_EVERY:
                return False, certain
            wish = torch.tensor(2 if stop else int(save), device=self.fabric.device)
            agreed = int(self.fabric.all_reduce(wish, reduce_op="max"))  # type: ignore[arg-type]
            stop, save = agreed == 2, agreed > 0
        return stop, save or stop

    def _save(self, done: int) -> None:
        self._check_terms()
        if not all(bool(torch.isfinite(p).all()) for p in self.module.parameters()):
            raise Diverged(f"the weights are no longer numbers; {self._last_good()}")
        if self.metrics is not None:
            self.metrics.flush()
        if self.fabric.is_global_zero:
            scaler = self.fabric.strategy.precision.state_dict()
            save_checkpoint(self.checkpoint, self.module, self.optimizer, self._identity(), done, scaler)
        self.fabric.barrier()
        self.saved, self.due = time.monotonic(), False

    def _observe(self, done: int) -> None:
        if self.fabric.is_global_zero:
            for observer in self.observers:
                observer.after_batch(self, done)

    def _identity(self) -> list[int]:
        """The number of images and of classes: a run is not resumed on others."""
        return [len(self.images), self.images.num_classes]

    def _check_terms(self) -> None:
        unchecked, self.unchecked = self.unchecked, []
        for step, terms in unchecked:
            for name, value in terms.items():
                if name != "loss" and not bool(torch.isfinite(value)):
                    raise Diverged(f"the {name} term became {float(value)} at step {step}; {self._last_good()}")

    def _last_good(self) -> str:
        kept = f"the last good checkpoint is {self.checkpoint}; " if self.checkpoint.exists() else ""
        return f"{kept}a lower --lr often helps"

    def _end(self) -> None:
        """Stop what observes, and give the module back as it was built, on the device of the training."""
        for observer in self.observers:
            observer.end()
        if self.logger is not None:
            self.logger.finalize("success" if sys.exc_info()[0] is None else "failed")
        if self.experiment.sync_batchnorm and self.fabric.world_size > 1:
            TorchSyncBatchNorm().revert(self.module)

    @contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM are noted, and obeyed between two steps; a second one interrupts at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True


class Metrics:
    """metrics.csv: a row every few steps, cut at the checkpoint when a run is resumed."""

    def __init__(self, path: Path, start: int) -> None:
        self.path = path
        self.rows: list[dict[str, str]] = []
        if path.exists():
            with path.open(newline="") as file:
                known = list(csv.DictReader(file))
            self.rows = [row for row in known if (row.get("step") or "").isdigit() and int(row["step"]) <= start]

    def add(self, values: dict[str, Any]) -> None:
        """Append a row."""
        self.rows.append({key: _number(value) for key, value in values.items()})

    def flush(self) -> None:
        """Write all rows, atomically."""
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(self.rows[0]) if self.rows else ["step"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, buffer.getvalue())


def _number(value: Any) -> str:
    return repr(float(value)) if isinstance(value, Tensor | float) else str(value)
