"""A run from its configuration to its model."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from ..actions import fit_action
from ..artifact import Encoder, save
from ..data import Images
from ..experiment import Experiment, build_method, build_stack, dump, from_dict, groups, open_data, read
from ..file import whole_file
from ..networks import Backbone
from .keeping import Keeper, SafeCheckpoints
from .module import Pretraining
from .progress import Bar

PRECISION = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed", "16": "16-mixed"}


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
    started = int(os.environ.get("WORLD_SIZE", 1))
    if started > 1 and started != experiment.devices * experiment.nodes:
        # Each of them would take itself for the whole run, and all would write to one folder.
        asked = f"--devices {experiment.devices} --nodes {experiment.nodes}"
        raise ValueError(f"{started} processes were started, for {asked}; give the devices of a machine and the nodes")
    if experiment.devices > 1:
        os.environ.setdefault("LOCAL_WORLD_SIZE", str(experiment.devices))  # processes share the cores of a machine
    images = images or open_data(experiment)
    torch.manual_seed(experiment.seed)
    method = build_method(experiment, backbone)
    stack = build_stack(experiment)
    if experiment.normalize:
        method.backbone.normalise_by(*images.statistics())
    module = Pretraining(method, stack, experiment, images)
    if experiment.precision == "64":
        module.double()  # before a checkpoint is loaded into it: float32 would round the weights
    keeper = Keeper(run, checkpoint_every)
    if experiment.compile:
        method.backbone.compile()
    several = experiment.devices * experiment.nodes > 1
    trainer = _trainer(
        accelerator="auto",
        devices=experiment.devices,
        num_nodes=experiment.nodes,
        strategy="ddp" if several and experiment.strategy == "auto" else experiment.strategy,
        precision=PRECISION[experiment.precision],
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
    try:
        trainer.fit(module, ckpt_path=keeper.checkpoint if keeper.checkpoint.exists() else None)
    except RuntimeError as error:
        if "loading state_dict" not in str(error):
            raise
        raise ValueError(f"{keeper.checkpoint} is of another model; was config.yaml changed since?") from None
    if trainer.is_global_zero:
        _list_skipped(run, images)
        save(_finish(module, experiment, images), run / "model")
    trainer.strategy.barrier()
    return run


def _trainer(**options: Any) -> L.Trainer:
    """Lightning's trainer; what it cannot do on this machine is an error of one line."""
    try:
        return L.Trainer(**options)
    except MisconfigurationException as error:
        raise ValueError(f"Lightning cannot train so: {' '.join(str(error).split())}") from None


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
    with whole_file(run / "config.yaml") as partial:
        partial.write_text(dump(experiment))
    _list_skipped(run, images)


def _list_skipped(run: Path, images: Images) -> None:
    if images.skipped:
        with whole_file(run / "skipped.txt") as partial:
            partial.write_text("\n".join(images.skipped) + "\n")


def _finish(module: Pretraining, experiment: Experiment, images: Images) -> Encoder:
    """The encoder with a fitted action for every group."""
    encoder = Encoder(
        module.method.backbone,
        module.method.layout,
        experiment,
        (images.shape[1], images.shape[2]),
        module.head,
        classes=None if images.classes is None else tuple(images.classes),
    )
    if experiment.action_pairs:
        pixels = images.sample(experiment.action_pairs, experiment.seed)
        for group in groups(experiment):
            action = fit_action(encoder.features, pixels, group, experiment.action_pairs, experiment.seed)
            encoder.actions[group.name] = action.float()  # fitted in double, kept as the features are
    return encoder


def _loggers(track: str | None, run: Path) -> Any:
    if track is None:
        return False
    from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger

    try:
        if track == "tensorboard":
            return TensorBoardLogger(run, name="", version="tensorboard")
        if track == "wandb":
            return WandbLogger(save_dir=run, name=run.name)
    except ModuleNotFoundError:
        raise ValueError(f"tracking with {track} needs more packages: pip install 'duet-ssl[track]'") from None
    raise ValueError(f"track must be tensorboard or wandb, not {track!r}")
