"""The progress of a run: a bar on a terminal, elsewhere one line an epoch."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from torch import Tensor

from ..progress import new_progress, wants_lines
from .glance import Glance
from .loop import Loop

NO_TERMS = ("loss", "head", "head_accuracy")
EVERY = 0.5
"""Seconds between two moves of the bar."""


class Bar:
    """Live progress: epoch, step, every term of the loss, the head's accuracy, the held-out error, time left.

    Without a terminal, the mean losses of every epoch.
    """

    def __init__(self, label: str, glance: Glance | None = None) -> None:
        self.progress: Progress | None = None
        self.task: TaskID | None = None
        self.label, self.glance = label, glance
        self.lines = False
        self.sums: dict[str, Tensor] = {}
        self.steps = 0

    def begin(self, loop: Loop) -> None:
        """Show the bar."""
        self.progress = new_progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=16)),
            BarColumn(bar_width=10, table_column=Column(min_width=4)),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            TimeRemainingColumn(elapsed_when_finished=True, table_column=Column(no_wrap=True, min_width=7)),
            TextColumn("{task.fields[terms]}"),
            refresh_per_second=2,
        )
        self.task = self.progress.add_task(self.label, total=len(loop.batches), completed=loop.batches.start, terms="")
        self.shown = 0.0
        self.lines = wants_lines() and self.progress.disable
        if self.glance is not None:
            self.glance.begin()
        self.progress.start()

    def after_batch(self, loop: Loop, done: int) -> None:
        """Move the bar, twice a second at most."""
        assert self.progress is not None
        assert self.task is not None
        if self.lines:
            self._add(loop.module.latest)
            if done % loop.batches.per_epoch == 0 or done == len(loop.batches):
                self._print_line((done - 1) // loop.batches.per_epoch + 1, loop.batches.epochs)
            return
        if time.monotonic() - self.shown < EVERY and done < len(loop.batches):
            return
        self.shown = time.monotonic()
        epoch = (done - 1) // loop.batches.per_epoch + 1
        words = [in_words(loop.module.latest)]
        if self.glance is not None and not self.progress.disable:
            words += self.glance(loop)
        label = f"{self.label} epoch {epoch}/{loop.batches.epochs}"
        self.progress.update(self.task, completed=done, description=label, terms="; ".join(words))

    def _add(self, latest: Mapping[str, Tensor]) -> None:
        """Count a step in: sums stay on the device, so that nothing waits for them."""
        for name, value in latest.items():
            value = value.detach().float()
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        self.steps += 1

    def _print_line(self, epoch: int, epochs: int) -> None:
        """Print the means of an epoch, as far as this process trained it."""
        means = {name: total / self.steps for name, total in self.sums.items()}
        print(f"{self.label} epoch {epoch}/{epochs}: {in_words(means)}", file=sys.stderr, flush=True)
        self.sums, self.steps = {}, 0

    def end(self) -> None:
        """Leave the bar as it is."""
        if self.progress is not None:
            self.progress.stop()


def in_words(latest: Mapping[str, Tensor]) -> str:
    """The numbers of a step, each with what it is: "losses content 9.25, group 50.7; head accuracy 0.54".

    The loss is the sum of its terms, and of the head its accuracy says enough.
    """
    losses = [f"{name} {float(value):.3g}" for name, value in latest.items() if name not in NO_TERMS]
    accuracy = [f"head accuracy {float(latest[name]):.3g}" for name in latest if name == "head_accuracy"]
    return "; ".join([f"{'losses' if len(losses) > 1 else 'loss'} {', '.join(losses)}", *accuracy])
