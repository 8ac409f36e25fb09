"""What a run keeps: metrics, checkpoints, and its word when it is stopped."""

from __future__ import annotations

import csv
import io
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins.io import CheckpointIO
from torch import Tensor

from ..error import DuetError
from ..file import write_text
from ..model.checkpoint import read_checkpoint, write_checkpoint
from .module import Pretraining
from .state import check_outside


class Stopped(Exception):
    """The user asked to stop; the run can be resumed."""


class Diverged(DuetError):
    """A term of the loss is no longer a number."""


class SafeCheckpoints(CheckpointIO):
    """Lightning's checkpoints in our own format: no pickle, atomic, the same state the same bytes."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint."""
        write_checkpoint(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = None) -> dict[str, Any]:
        """Read a checkpoint."""
        try:
            return check_outside(read_checkpoint(Path(path)))
        except DuetError as error:
            raise DuetError(f"cannot go on from {path}: {error}") from None

    def remove_checkpoint(self, path: Any) -> None:
        """Delete a checkpoint."""
        Path(path).unlink(missing_ok=True)


SYNC_EVERY = 8
"""Batches between two questions of processes to each other: a stop may wait that long, no step waits for an answer."""


class Keeper(Callback):
    """Watches the terms, writes metrics.csv and checkpoints, and stops when asked to."""

    def __init__(
        self,
        run: Path,
        every: int | None = None,
        seconds: float = 10.0,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        if every is not None and every < 1:
            raise DuetError(f"--checkpoint-every counts steps and starts at 1; it is {every}")
        self.run, self.every, self.seconds, self.begin = run, every, seconds, begin
        self.checkpoint = run / "checkpoints" / "last.safetensors"
        self.saved = time.monotonic()
        self.asked_to_stop = False
        self.due = False
        self.unchecked: list[tuple[int, dict[str, Tensor]]] = []

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Listen for Ctrl-C; begin the run, now that all is restored; drop metrics from after the checkpoint."""
        assert isinstance(module, Pretraining)
        # First, since a run that can be seen can be stopped: until now Lightning takes a SIGTERM, and goes on.
        # At the end of fit it puts back what was there before both: whoever did so later would leave its own for good.
        if _in_main():
            signal.signal(signal.SIGINT, self._ask)
            signal.signal(signal.SIGTERM, self._ask)
        if trainer.is_global_zero:
            self.begin()
        self.metrics = Metrics(self.run / "metrics.csv", module.steps.start) if trainer.is_global_zero else None
        self.log_every = max(1, module.steps.per_epoch // 4)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Check, write, save."""
        assert isinstance(module, Pretraining)
        done = batch_idx + 1
        last = done == len(module.steps)
        self.unchecked.append((done, module.latest))
        log = done % self.log_every == 0 or last
        if module.device.type == "cpu" or log:
            self._check()
        if log and self.metrics is not None:
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            row = {"epoch": batch_idx // module.steps.per_epoch, "lr": rate, **module.latest}
            self.metrics.add({"step": done, **row})
            for logger in trainer.loggers:
                logger.log_metrics({name: float(value) for name, value in row.items()}, step=done)
        self.due = self.due or self._due(done, module.steps.per_epoch)
        if done % trainer.accumulate_grad_batches and not last:
            return  # gradients that are still added up are in no checkpoint
        stop, save = self._agree(trainer, done, last)
        if save:
            self._save(trainer, module)
        if stop:
            raise Stopped(f"stopped at step {done} of {len(module.steps)}; go on with: duet train --resume {self.run}")

    def _agree(self, trainer: L.Trainer, done: int, last: bool) -> tuple[bool, bool]:
        """Whether to stop and whether to save, the same in every process: one number, now and then."""
        stop, save = self.asked_to_stop, self.due or last
        if trainer.world_size > 1:
            # That a number of steps is done, every process knows by itself.
            certain = last or (self.due and self.every is not None)
            if (done // trainer.accumulate_grad_batches) % SYNC_EVERY:
                return False, certain
            told = torch.tensor(2 if stop else int(save), device=trainer.strategy.root_device)
            wish = int(trainer.strategy.reduce(told, reduce_op="max"))
            stop, save = wish == 2, wish > 0
        return stop, save or stop

    def _due(self, done: int, per_epoch: int) -> bool:
        if self.every is not None:
            return done % self.every == 0
        return done % per_epoch == 0 and time.monotonic() - self.saved >= self.seconds

    def _save(self, trainer: L.Trainer, module: Pretraining) -> None:
        self._check()
        if not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
            raise Diverged(f"the weights are no longer numbers; {self._last_good()}")
        if self.metrics is not None:
            self.metrics.flush()
        trainer.save_checkpoint(self.checkpoint)
        self.saved, self.due = time.monotonic(), False

    def _check(self) -> None:
        unchecked, self.unchecked = self.unchecked, []
        for step, terms in unchecked:
            for name, value in terms.items():
                if name != "loss" and not bool(torch.isfinite(value)):
                    raise Diverged(f"the {name} term became {float(value)} at step {step}; {self._last_good()}")

    def _last_good(self) -> str:
        kept = f"the last good checkpoint is {self.checkpoint}; " if self.checkpoint.exists() else ""
        return f"{kept}a lower --lr often helps"

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True


class Metrics:
    """metrics.csv: a row every few steps, kept up to the checkpoint when a run is resumed."""

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


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()
