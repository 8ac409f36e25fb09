"""Training: one LightningModule for every method, one loader, and a run that can be stopped at any moment."""

from __future__ import annotations

import csv
import logging
import math
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins.io import CheckpointIO
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from .actions import fit_action
from .artifact import Encoder, save
from .checkpoint import as_tensor_like, read_checkpoint, write_checkpoint
from .data import Images
from .experiment import Experiment, build_method, build_stack, dump, from_dict, groups, open_data, read
from .groups import Stack
from .methods import Method
from .networks import Backbone, OnlineHead
from .objectives import all_gather

PRECISION = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed", "16": "16-mixed"}


class Stopped(Exception):
    """The user asked to stop; the run can be resumed."""


class Diverged(ValueError):
    """A term of the loss is no longer a number."""


def step_seed(seed: int, step: int, rank: int) -> int:
    """The generator's seed of a step: a function of (seed, step, rank), scattered so that neighbours are unrelated."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB + 1) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (mixed ^ (mixed >> 31)) & (2**63 - 1)


def learning_rate(step: int, warm: float, total: int) -> float:
    """The share of the highest learning rate: linear to 1 over `warm` steps, then a cosine to 0."""
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1.0, total - warm))))


def build_optimizer(module: nn.Module, experiment: Experiment) -> torch.optim.Optimizer:
    """Adam or AdamW over all parameters, as one fused kernel where there is one."""
    kind = torch.optim.Adam if experiment.optimizer == "adam" else torch.optim.AdamW
    parameters = list(module.parameters())
    return kind(
        parameters,
        lr=experiment.lr,
        betas=experiment.betas,
        weight_decay=experiment.weight_decay,
        fused=all(p.device.type in ("cpu", "cuda") for p in parameters),
    )


class Steps:
    """Every batch of the training, one after another over all epochs; a resumed run starts at `start`."""

    def __init__(self, images: Images, experiment: Experiment, rank: int, world: int) -> None:
        self.images, self.seed, self.epochs = images, experiment.seed, experiment.epochs
        self.rank, self.world = rank, world
        self.batch = experiment.batch_size // world
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
    """One step of any method: draw views, represent, sum the terms, step; and a linear head that only watches."""

    def __init__(self, method: Method, stack: Stack, experiment: Experiment, images: Images) -> None:
        super().__init__()
        self.method = method
        self.stack = stack
        self.experiment = experiment
        self.images = images
        self.head = OnlineHead(method.backbone.dim, images.num_classes) if images.num_classes > 1 else None
        self.latest: dict[str, Tensor] = {}
        self._start = 0

    def train_dataloader(self) -> Steps:
        """All batches of the run."""
        self.steps = Steps(self.images, self.experiment, self.global_rank, self.trainer.world_size)
        self.steps.start = self._start
        return self.steps

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """The loss of a batch; `latest` keeps its terms."""
        images, labels = batch
        generator = torch.Generator().manual_seed(step_seed(self.experiment.seed, index, self.global_rank))
        with torch.no_grad(), torch.autocast(images.device.type, enabled=False):
            views = self.method.draw_views(images, self.stack, generator)
        represented = self.method.represent(views)
        terms = self.method.terms(represented, views, all_gather if self.trainer.world_size > 1 else None)
        loss = torch.stack([term.float() for term in terms.values()]).sum()
        self.latest = {"loss": loss.detach(), **{name: term.detach() for name, term in terms.items()}}
        if self.head is not None:
            labels = labels.repeat(2)
            logits = self.head(represented.z)
            watching = self.head.loss(logits.float(), labels)
            self.latest |= {"head": watching.detach(), "head_accuracy": self.head.accuracy(logits.detach(), labels)}
            # The head's input is detached: this adds nothing to the encoder's gradient.
            loss = loss + watching
        return loss

    def configure_optimizers(self) -> Any:
        """Adam or AdamW with warm-up and cosine, as in the paper."""
        e = self.experiment
        optimizer = build_optimizer(self, e)
        per_epoch = self.images.batches_per_epoch(e.batch_size // self.trainer.world_size, self.trainer.world_size)
        total = math.ceil(per_epoch * e.epochs / e.accumulate)
        warm = e.warmup_epochs * per_epoch / e.accumulate
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, warm, total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Remember how many batches are done."""
        checkpoint["batches"] = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Start after the batches that are done."""
        self._start = int(checkpoint["batches"])

    def on_train_start(self) -> None:
        """Give the restored state of the optimiser the memory order of its parameters, so that it rounds alike."""
        for optimizer in self.trainer.optimizers:
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    state[key] = as_tensor_like(value, parameter) if isinstance(value, Tensor) else value


class SafeCheckpoints(CheckpointIO):
    """Lightning's checkpoints in our own format: no pickle, atomic, the same state the same bytes."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint."""
        write_checkpoint(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = None) -> dict[str, Any]:
        """Read a checkpoint."""
        state: dict[str, Any] = read_checkpoint(Path(path))
        return state

    def remove_checkpoint(self, path: Any) -> None:
        """Delete a checkpoint."""
        Path(path).unlink(missing_ok=True)


class Keeper(Callback):
    """Watches the terms, writes metrics.csv and checkpoints, and stops when asked to."""

    def __init__(self, run: Path, every: int | None = None, seconds: float = 10.0) -> None:
        self.run, self.every, self.seconds = run, every, seconds
        self.checkpoint = run / "checkpoints" / "last.safetensors"
        self.saved = time.monotonic()
        self.asked_to_stop = False
        self.unchecked: list[tuple[int, dict[str, Tensor]]] = []

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Listen for Ctrl-C and a cluster's SIGTERM, and drop metrics from after the checkpoint."""
        assert isinstance(module, Pretraining)
        self.metrics = Metrics(self.run / "metrics.csv", module.steps.start) if trainer.is_global_zero else None
        self.log_every = max(1, module.steps.per_epoch // 4)
        self.before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)} if _in_main() else {}

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
            epoch = batch_idx // module.steps.per_epoch
            self.metrics.add({"step": done, "epoch": epoch, "lr": rate, **module.latest})
        if trainer.strategy.reduce_boolean_decision(self.asked_to_stop, all=False):
            self._save(trainer, module)
            raise Stopped(f"stopped at step {done} of {len(module.steps)}; go on with: duet train --resume {self.run}")
        if last or trainer.strategy.reduce_boolean_decision(self._due(done, module.steps.per_epoch), all=False):
            self._save(trainer, module)

    def teardown(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        """Stop listening."""
        for number, handler in getattr(self, "before", {}).items():
            signal.signal(number, handler)

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
        self.saved = time.monotonic()

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
        partial = self.path.with_name(self.path.name + ".partial")
        with partial.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(self.rows[0]) if self.rows else ["step"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        os.replace(partial, self.path)


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
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[terms]}"),
            console=Console(stderr=True),
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
        terms = "  ".join(f"{name} {float(value):.3f}" for name, value in module.latest.items() if name != "head")
        label = f"{self.label} epoch {epoch}/{module.steps.epochs}"
        self.progress.update(self.task, completed=done, description=label, terms=terms.replace("head_accuracy", "head"))

    def teardown(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        """Leave the bar as it is."""
        if self.progress is not None:
            self.progress.stop()


def pretrain(
    experiment: Experiment,
    run: Path,
    *,
    images: Images | None = None,
    backbone: Backbone | None = None,
    track: str | None = None,
    checkpoint_every: int | None = None,
    quiet: bool = False,
) -> Path:
    """Train and leave config.yaml, metrics.csv, checkpoints/ and model/ in a folder; a run begun there goes on."""
    for noisy in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module="lightning")
    warnings.filterwarnings("ignore", "`isinstance.treespec, LeafSpec.` is deprecated")
    images = images or open_data(experiment)
    torch.manual_seed(experiment.seed)
    method = build_method(experiment, backbone)
    stack = build_stack(experiment)
    if experiment.normalize:
        method.backbone.normalise_by(*images.statistics())
    module = Pretraining(method, stack, experiment, images)
    keeper = Keeper(run, checkpoint_every)
    if experiment.compile:
        method.backbone.compile()
    several = experiment.devices * experiment.nodes > 1
    trainer = L.Trainer(
        accelerator="auto",
        devices=experiment.devices,
        num_nodes=experiment.nodes,
        strategy="ddp" if several and experiment.strategy == "auto" else experiment.strategy,
        precision=PRECISION[experiment.precision],  # type: ignore[arg-type]
        max_epochs=1,
        accumulate_grad_batches=experiment.accumulate,
        sync_batchnorm=experiment.sync_batchnorm,
        logger=_loggers(track, run),
        callbacks=[keeper, *([] if quiet else [Bar(experiment.method)])],
        plugins=[SafeCheckpoints()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=run,
    )
    if trainer.is_global_zero:
        _begin(run, experiment, images)
    trainer.fit(module, ckpt_path=keeper.checkpoint if keeper.checkpoint.exists() else None)
    if trainer.is_global_zero:
        save(_finish(module, experiment, images), run / "model")
    trainer.strategy.barrier()
    return run


def resume(run: Path, **options: Any) -> bool:
    """Go on with a run that was stopped; False when it is finished already."""
    config = run / "config.yaml"
    if not config.exists():
        raise ValueError(f"{run} is not a run: it has no config.yaml")
    if (run / "model" / "config.json").exists():
        return False
    pretrain(from_dict(read(config), str(config)), run, **options)
    return True


def _begin(run: Path, experiment: Experiment, images: Images) -> None:
    run.mkdir(parents=True, exist_ok=True)
    partial = run / "config.yaml.partial"
    partial.write_text(dump(experiment))
    os.replace(partial, run / "config.yaml")
    if images.skipped:
        (run / "skipped.txt").write_text("\n".join(images.skipped) + "\n")


def _finish(module: Pretraining, experiment: Experiment, images: Images) -> Encoder:
    """The encoder with a fitted action for every group."""
    encoder = Encoder(
        module.method.backbone,
        module.method.layout,
        experiment,
        (images[0].shape[1], images[0].shape[2]),
        module.head,
        classes=None if images.classes is None else tuple(images.classes),
    )
    if experiment.action_pairs:
        pixels = torch.cat([images[i][None] for i in range(min(len(images), experiment.action_pairs))])
        for group in groups(experiment):
            action = fit_action(encoder.features, pixels, group, experiment.action_pairs, experiment.seed)
            encoder.actions[group.name] = action.float()  # fitted in double, kept as the features are
    return encoder


def _loggers(track: str | None, run: Path) -> Any:
    if track is None:
        return False
    if track == "tensorboard":
        from lightning.pytorch.loggers import TensorBoardLogger

        return TensorBoardLogger(run, name="", version="tensorboard")
    if track == "wandb":
        from lightning.pytorch.loggers import WandbLogger

        return WandbLogger(save_dir=run, name=run.name)
    raise ValueError(f"track must be tensorboard or wandb, not {track!r}")


def _number(value: Any) -> str:
    return repr(float(value)) if isinstance(value, Tensor | float) else str(value)


def _in_main() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
