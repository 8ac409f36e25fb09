"""The progress bar of a run."""

from __future__ import annotations

import time
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities import rank_zero_only
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from ..progress import new_progress
from .module import Pretraining


class Bar(Callback):
    """Live progress: epoch, step, every term, the head's accuracy, time left."""

    def __init__(self, label: str) -> None:
        self.progress: Progress | None = None
        self.task: TaskID | None = None
        self.label = label

    @rank_zero_only
    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Show the bar."""
        assert isinstance(module, Pretraining)
        self.progress = new_progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=16)),
            BarColumn(bar_width=10, table_column=Column(min_width=4)),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            TimeRemainingColumn(elapsed_when_finished=True, table_column=Column(no_wrap=True, min_width=7)),
            TextColumn("{task.fields[terms]}"),
            refresh_per_second=2,
        )
        self.task = self.progress.add_task(self.label, total=len(module.steps), completed=module.steps.start, terms="")
        self.shown = 0.0
        self.progress.start()

    @rank_zero_only
    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move the bar, twice a second at most."""
        assert isinstance(module, Pretraining)
        assert self.progress is not None
        assert self.task is not None
        done = batch_idx + 1
        if time.monotonic() - self.shown < 0.5 and done < len(module.steps):
            return
        self.shown = time.monotonic()
        epoch = min(batch_idx // module.steps.per_epoch + 1, module.steps.epochs)
        # The loss is the sum of the terms, and of the head its accuracy says enough.
        shown = {name: value for name, value in module.latest.items() if name not in ("loss", "head")}
        terms = " ".join(f"{name.removesuffix('_accuracy')} {float(value):.3g}" for name, value in shown.items())
        label = f"{self.label} epoch {epoch}/{module.steps.epochs}"
        self.progress.update(self.task, completed=done, description=label, terms=terms)

    def teardown(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        """Leave the bar as it is."""
        if self.progress is not None:
            self.progress.stop()
