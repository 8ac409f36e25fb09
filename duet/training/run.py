"""A run from its configuration to its model."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities.exceptions import MisconfigurationException

from ..data import Images
from ..data.place import find_place, note_place
from ..device import find_device, has_native_bf16
from ..error import DuetError
from ..file import NoSpace, does_not_exist, sweep_partial, write_text
from ..groups import Group, Stack
from ..methods import METHODS, Method, register_method
from ..networks import Backbone
from ..networks.backbone import HANDED_IN
from ..pixels import as_float
from .bar import Bar
from .calibration import split_in_words
from .experiment import (
    Experiment,
    build_method,
    build_stack,
    from_file,
    group_weight,
    open_data,
    unused_keys,
)
from .finish import finish, turns_of
from .glance import glance_at
from .loop import Loop
from .machine import as_begun, note_machine
from .module import Pretraining
from .network import build_network, input_statistics, views_of_run
from .outlook import check_batch, check_scales, warn_of_few_steps, warn_of_small_images
from .process import LOCK, alone_in, choose_folder, clear_folder, free_folder, rank
from .recipe import read_yaml
from .tracking import open_logger
from .trained_images import check_same_images, keep_aside_for, note_images
from .view_size import ViewSizes
from .watch import Watch

log = logging.getLogger(__name__)

PRECISION = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed", "16": "16-mixed"}
MACHINE = ("devices", "nodes", "strategy", "storage", "compile", "plugins")
"""Keys that say where a run is computed, not what: a run may go on elsewhere."""
EFFECT_IMAGES = 32
"""Images on which a group must change something."""


def train(
    experiment: Experiment,
    out: str | os.PathLike[str] | None = None,
    *,
    images: Images | None = None,
    backbone: Backbone | None = None,
    method: Method | Callable[[Backbone], Method] | None = None,
    stack: Stack | None = None,
    device: str = "auto",
    track: str | None = None,
    checkpoint_every: int | None = None,
    quiet: bool = False,
) -> Path:
    """Train and leave config.yaml, metrics.csv, checkpoints/ and model/ in a folder; a run begun there goes on.

    `out` is by default runs/NAME, free or followed by a number. `images`, `backbone`, `method` (an object, or a
    function from the backbone to one) and `stack` of your own take the place of those that the experiment names; a run
    with any of these is resumed by the same call. Returns the folder.
    """
    _check_call(experiment, images, backbone, stack)
    run = choose_folder(out, experiment.name, experiment.nodes)
    with alone_in(run) as fresh, _full_disk_explained(run), as_begun(run):
        own = (images, backbone, method, stack)
        _train_alone(experiment, run, fresh, *own, device, track, checkpoint_every, quiet)
    return run


def _train_alone(
    experiment: Experiment,
    run: Path,
    fresh: bool,
    images: Images | None = None,
    backbone: Backbone | None = None,
    method: Method | Callable[[Backbone], Method] | None = None,
    stack: Stack | None = None,
    device: str = "auto",
    track: str | None = None,
    checkpoint_every: int | None = None,
    quiet: bool = False,
) -> None:
    """Train in a folder that this process holds."""
    experiment = _with_precision(experiment, run, device)
    place = None if images is not None else find_place(run, experiment.data)
    images = images or open_data(experiment if place is None else replace(experiment, data=place))
    check_batch(len(images), experiment)
    kept = keep_aside_for(run, experiment, images)
    split = split_in_words(images, kept)
    if rank() == 0:
        log.info("%s: %s", images.name, split)
    images = kept.trained
    warn_of_few_steps(len(images), experiment)
    torch.manual_seed(experiment.seed)
    method = _method(experiment, backbone, method, (images.shape[1], images.shape[2]))
    experiment = _as_trained(experiment, method, backbone)
    _check_goes_on(run, experiment)
    check_same_images(run, images)
    if unused := unused_keys(experiment):
        log.warning("%s has no %s: that has no effect", experiment.method, " and no ".join(unused))
    stack = stack or build_stack(experiment)
    turns_of(experiment, method, stack.tracked, images)
    _check_effect(images, stack.tracked, experiment.seed)
    sizes = ViewSizes.parse(experiment.view_size)
    smallest = (images.shape[1], images.shape[2]) if sizes is None else (min(sizes.sides), min(sizes.sides))
    warn_of_small_images(method.backbone, experiment, smallest)
    cached = views_of_run(experiment, method, images, stack, device)
    if experiment.normalize:
        method.backbone.normalise_by(*input_statistics(method.backbone, cached or images, experiment.seed))
    module = Pretraining(method, cached or stack, experiment, cached or images)
    if experiment.precision == "64":
        module.double()  # before a checkpoint is loaded into it: float32 would round the weights
    if experiment.compile:
        method.backbone.compile()
    fabric = _fabric(experiment, device)
    watch = Watch(run)
    glance = None if kept.aside is None else glance_at(kept.aside, stack.tracked, method, experiment.seed)
    loop = Loop(
        fabric,
        module,
        cached or images,
        run,
        checkpoint_every=checkpoint_every,
        begin=partial(_begin, run, experiment, images, place),
        observers=[watch, *([] if quiet else [Bar(experiment.method, glance)])],
        logger=open_logger(track, run),
    )
    (cached or images).batches_per_epoch(experiment.joined_batch // fabric.world_size, fabric.world_size)
    try:
        loop.train()
    except Exception:
        # What failed before its first step is no run: a folder of it would only be in the way.
        if fresh and fabric.is_global_zero and not module.latest:
            clear_folder(run)
        raise
    if fabric.is_global_zero:
        _list_skipped(run, images)
        encoder = finish(module, experiment, stack.tracked, kept, fabric.device)
        encoder.provenance["split"] = split
        encoder.save(run / "model")
        watch.say_again()
    fabric.barrier()


def resume(run: str | os.PathLike[str], epochs: int | None = None, **options: Any) -> bool:
    """Go on with a run that was stopped, or past its end to more `epochs`; False when it is finished already.

    More epochs mean a new schedule of the learning rate from there on, which config.yaml and the model then say.
    """
    run = Path(run)
    if epochs is not None and not isinstance(epochs, int):
        raise DuetError(f"epochs must be a whole number; it is {epochs!r}")
    if not run.exists():
        raise DuetError(does_not_exist(run))
    if not (run / "config.yaml").exists():
        hint = "; it was stopped before its training began: give its command again" if (run / LOCK).exists() else ""
        raise DuetError(f"{run} is not a run: it has no config.yaml{hint}")
    with alone_in(run) as fresh:
        # Only now: until the folder is held, another process may finish the run, or make it longer.
        experiment = _experiment_left(run, epochs)
        if experiment is None:
            return False
        _check_call(experiment, **options)
        with _full_disk_explained(run), as_begun(run):
            _train_alone(experiment, run, fresh, **options)
    return True


def _experiment_left(run: Path, epochs: int | None) -> Experiment | None:
    """What is left to train in a run's folder, up to more `epochs` where they are given; None when it is finished."""
    experiment = _experiment_of(run)
    if epochs is not None and epochs != experiment.epochs:
        if epochs < experiment.epochs:
            raise DuetError(f"{run} has {experiment.epochs} epochs already; --epochs can only add to them")
        return replace(experiment, epochs=epochs, extended=(*experiment.extended, experiment.epochs))
    return None if (run / "model" / "config.json").exists() else experiment


@contextmanager
def _full_disk_explained(run: Path) -> Iterator[None]:
    """Say on a full disk how to resume a run that has begun."""
    try:
        yield
    except NoSpace as full:
        if not (run / "config.yaml").exists():
            raise
        left = f"no space left to write {full.path}"
        raise DuetError(f"{left}; free some and go on with: duet train --resume {run}") from None


def _experiment_of(run: Path) -> Experiment:
    """What a run's config.yaml says; one that says nothing of calibration was begun before there was any."""
    path = run / "config.yaml"
    return from_file({"calibrate": False, **read_yaml(path)}, str(path))


def _check_goes_on(run: Path, experiment: Experiment) -> None:
    """Refuse to go on with another run than this: its weights would not be what its files say."""
    if not (run / "config.yaml").exists():
        return
    before = _experiment_of(run)
    wanted = replace(before, **{key: getattr(experiment, key) for key in MACHINE})
    if experiment.extended == (*before.extended, before.epochs):
        wanted = replace(wanted, epochs=experiment.epochs, extended=experiment.extended)
    differing = [key for key, value in wanted.to_dict().items() if experiment.to_dict()[key] != value]
    if differing:
        raise DuetError(
            f"{run} holds a run with another {', '.join(differing)}; resume that one, or take another folder"
        )


def _begin(run: Path, experiment: Experiment, images: Images, place: str | None) -> None:
    """Write what the run is; a model of fewer epochs gets a name of its own before, so that the run is not finished."""
    for folder in (run, run / "checkpoints", run / "model"):
        sweep_partial(folder)
    if experiment.extended and (run / "model" / "config.json").exists():
        before = _experiment_of(run).epochs
        if before < experiment.epochs:
            os.replace(run / "model", free_folder(run / f"model-{before}-epochs"))
    note_machine(run, experiment.precision)
    note_images(run, images)
    if place is not None:
        note_place(run, experiment.data, place)
    write_text(run / "config.yaml", experiment.to_yaml())
    _list_skipped(run, images)


def _with_precision(experiment: Experiment, run: Path, device: str) -> Experiment:
    """The experiment with the precision that `auto` stands for: that of the run where it was begun."""
    if experiment.precision != "auto":
        return experiment
    begun = _experiment_of(run).precision if (run / "config.yaml").exists() else "auto"
    where = find_device(device)
    chosen = begun if begun != "auto" else "bf16" if has_native_bf16(where) else "32"
    why = "as the run was begun" if begun != "auto" else f"{'' if chosen == 'bf16' else 'no '}native bf16 on {where}"
    log.info("precision: %s (%s)", chosen, why)
    return replace(experiment, precision=chosen)


def _method(
    experiment: Experiment,
    backbone: Backbone | None,
    method: Method | Callable[[Backbone], Method] | None,
    size: tuple[int, int],
) -> Method:
    if isinstance(method, Method):
        if backbone is not None:
            raise DuetError("a method brings its own backbone; give one of the two")
        return method
    if method is None:
        return build_method(experiment, backbone, size)
    if not callable(method):
        raise DuetError("a method of your own is a Method, or a function from a backbone to one")
    made = method(backbone or build_network(experiment, size))
    if not isinstance(made, Method):
        raise DuetError(f"`method` must make a Method of the backbone, not a {type(made).__name__}")
    return made


def _as_trained(experiment: Experiment, method: Method, backbone: Backbone | None) -> Experiment:
    """The experiment with the names of what was handed in, so that no file says something else."""
    if METHODS.get(method.name) is not type(method):
        register_method(type(method))  # its run is then known by its name, as that of any other
    if method.name != experiment.method:
        experiment = replace(experiment, method=method.name, weight=None, options={})
    if backbone is not None or method.backbone.recipe is None:
        recipe = method.backbone.recipe or {"name": HANDED_IN, "dim": None}
        experiment = replace(experiment, encoder=recipe["name"], dim=recipe["dim"])
    return experiment


def _check_call(experiment: Any, images: Any = None, backbone: Any = None, stack: Any = None, **_: Any) -> None:
    """Refuse arguments that cannot be trained with, and silence Lightning."""
    _check_arguments(experiment, images, backbone, stack)
    _hush_lightning()
    _check_processes(experiment)
    check_scales(experiment.temperature, group_weight(experiment))


def _check_arguments(experiment: Any, images: Any, backbone: Any, stack: Any) -> None:
    """Refuse what a user might take for one of these."""
    if not isinstance(experiment, Experiment):
        kind = type(experiment).__name__
        raise DuetError(f"train takes an Experiment, such as duet.Experiment.preset('demo'), not a {kind}")
    if backbone is not None and not isinstance(backbone, Backbone):
        raise DuetError("a backbone of your own is made of your module by duet.networks.wrap(module, channels=...)")
    if images is not None and not isinstance(images, Images):
        raise DuetError("images of your own are opened by duet.data.open_images, or are a duet.data.MemoryImages")
    if stack is not None and not isinstance(stack, Stack):
        raise DuetError("a stack of your own is a duet.groups.Stack, such as Stack.rrc_plus('rot360')")


def _check_processes(experiment: Experiment) -> None:
    started = int(os.environ.get("WORLD_SIZE", 1))
    if started > 1 and started != experiment.devices * experiment.nodes:
        # Each of them would take itself for the whole run, and all would write to one folder.
        asked = f"--devices {experiment.devices} --nodes {experiment.nodes}"
        raise DuetError(f"{started} processes were started, for {asked}; give the devices of a machine and the nodes")
    if experiment.devices > 1:
        os.environ.setdefault("LOCAL_WORLD_SIZE", str(experiment.devices))  # processes share the cores of a machine


def _check_effect(images: Images, groups: tuple[Group, ...], seed: int) -> None:
    """Refuse a group that does nothing to these images: hue, for one, does nothing to grey ones."""
    sample = as_float(images.sample(min(EFFECT_IMAGES, len(images)), seed))
    for group in groups:
        generator = torch.Generator().manual_seed(seed)
        changed = group.apply(sample, group.sample(len(sample), generator), generator)
        if float((changed - sample).abs().max()) < 1 / 255:
            grey = ": they are grey" if images.is_grey() and group.channels == 3 else ""
            raise DuetError(f"{group.name} changes nothing in the images of {images.name}{grey}; take another group")


def _fabric(experiment: Experiment, device: str) -> Fabric:
    """Devices, precision and processes; what cannot be had on this machine is an error of one line."""
    several = experiment.devices * experiment.nodes > 1
    try:
        fabric = Fabric(
            accelerator="auto" if device == "auto" else find_device(device).type,
            devices=_devices(experiment, device),
            num_nodes=experiment.nodes,
            strategy="ddp" if several and experiment.strategy == "auto" else experiment.strategy,
            precision=PRECISION[experiment.precision],  # type: ignore[arg-type]
        )
    except (MisconfigurationException, ValueError, RuntimeError) as error:
        raise DuetError(f"Lightning cannot train so: {' '.join(str(error).split())}") from None
    if several and experiment.sync_batchnorm and fabric.device.type == "cpu":
        raise DuetError("torch has batch statistics over processes on GPUs only; here give --no-sync-batchnorm")
    return fabric


def _devices(experiment: Experiment, device: str) -> int | list[int]:
    """How many devices, or which one: cuda:1 is the second."""
    index = None if device == "auto" else find_device(device).index
    if index is None or device.startswith("cpu"):
        return experiment.devices
    if experiment.devices > 1:
        raise DuetError(f"--device {device} is one device, and --devices asks for {experiment.devices}")
    return [index]


def _hush_lightning() -> None:
    for noisy in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module="lightning")
    warnings.filterwarnings("ignore", "`isinstance.treespec, LeafSpec.` is deprecated")


def _list_skipped(run: Path, images: Images) -> None:
    if images.skipped:
        write_text(run / "skipped.txt", "\n".join(images.skipped) + "\n")
