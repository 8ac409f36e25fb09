"""duet train"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..error import DuetError, printable
from .command import Command, key_values, whole

if TYPE_CHECKING:
    from ..training.experiment import Experiment

SECTIONS = {
    "what is trained": ("method", "group", "data"),
    "the method": (
        *("weight", "reference", "layout", "bins", "sigma", "target", "contrast", "temperature"),
        "options",
    ),
    "views": ("stack", "area", "corners", "blur", "views", "view_size"),
    "network": ("encoder", "dim", "projector"),
    "pretrained network": (
        *("trunk", "trunk_layers", "trunk_size", "grid", "neck", "neck_width", "dropout"),
        *("cached_views", "unfreeze"),
    ),
    "training": (
        *("epochs", "batch_size", "accumulate", "exact", "optimizer", "lr", "betas", "weight_decay", "decay_norms"),
        *("warmup_epochs", "seed", "action_pairs", "turns"),
    ),
    "images": ("split", "subset", "image_size", "channels", "normalize", "storage", "calibrate"),
    "machine": ("precision", "compile", "devices", "nodes", "strategy", "sync_batchnorm"),
}
RECORDED = ("extended", "plugins")
"""Keys that a run's own history fills, not a flag of their name."""


class Train(Command):
    """Train an encoder."""

    name = "train"
    summary = "train DUET, SimCLR, ESSL or a method of yours"
    usage = "duet train [--preset NAME] [--data DATA] [--group GROUP ...] [--out DIR] [option ...]"
    description = """Train an encoder and leave a run's folder: config.yaml, metrics.csv, checkpoints/, model/.

  duet train --preset cpu --data cifar10 --group rot360 --method duet --weight 100
  duet train --preset cpu --data photos/ --image-size 32 --group rot360 hue --layout concatenated
  duet train --trunk lite0 --data photos/ --group rot360       # on a frozen ImageNet network; the preset is photos
  duet train --plugin mypkg.module --method mine --option speed=2 --encoder mypkg.module:build
  duet train --resume runs/duet-rot360-cifar10
  duet train --resume runs/duet-rot360-cifar10 --epochs 80     # past the old end, with a new schedule

A flag beats --config, which beats --preset. --print-config shows what would run. --group, --method and --encoder also
take module:Name, a thing of your own, and so does --contrast. `duet list` says what there is."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Every field of an Experiment is a flag."""
        parser.add_argument("--preset", metavar="NAME", help="a shipped recipe; duet list presets")
        parser.add_argument(
            "--config", type=Path, metavar="FILE", help="YAML with the keys below, such as a run's config.yaml"
        )
        parser.add_argument(
            "--out", type=Path, metavar="DIR", help="the run's folder (default: runs/METHOD-GROUP-DATA)"
        )
        parser.add_argument(
            "--resume", type=Path, metavar="RUN", help="go on with a run that was stopped; with --epochs past its end"
        )
        parser.add_argument(
            "--print-config", "--print_config", action="store_true", help="show the configuration and leave"
        )
        parser.add_argument("--track", choices=("tensorboard", "wandb"), help="also log there (extra `track`)")
        parser.add_argument(
            "--checkpoint-every",
            type=whole(10**12),
            metavar="STEPS",
            help="default: after an epoch, at most every ten seconds",
        )
        if chosen:
            _add_fields(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Train, resume, or show the configuration."""
        from ..training.adoption import adopt
        from ..training.experiment import NAMED, Experiment, check_file, from_dict
        from ..training.recipe import merge, preset, read_yaml

        options = {"track": args.track, "checkpoint_every": args.checkpoint_every, "device": args.device}
        given = {name: getattr(args, name) for names in SECTIONS.values() for name in names}
        given = {name: value for name, value in given.items() if value not in (None, [])}
        if "options" in given:
            given["options"] = key_values(given["options"])
        if args.resume is not None:
            if set(given) - {"epochs"} or args.preset or args.config or args.out:
                raise DuetError("--resume takes the run's own configuration; give no other option with it but --epochs")
            if args.print_config:
                print(Experiment.from_yaml(args.resume / "config.yaml").to_yaml(), end="")
                return 0
            return _resume(args.resume, given.get("epochs"), options)
        typed = adopt({**given, **({"plugins": args.plugin} if args.plugin else {})})
        filed = read_yaml(args.config) if args.config else {}
        check_file(filed, str(args.config))  # before it could ask for anything
        chosen = args.preset or ("photos" if "trunk" in typed and not args.config else None)
        recipe = preset(chosen) if chosen else {}
        experiment = from_dict(merge(recipe, filed, typed))
        if args.print_config:
            print(experiment.to_yaml(), end="")
            return 0
        from ..training.loop import Stopped
        from ..training.run import train

        same = {key: value for key, value in typed.items() if key in ("method", "group", "data")}
        usual = merge(recipe, filed, same) if chosen else {}
        base = {**experiment.to_dict(), **{key: usual.get(key, getattr(Experiment, key)) for key in NAMED}}
        run = _folder(args.out, experiment, experiment.name_beside(from_dict(base)))
        try:
            train(experiment, run, **options)
        except Stopped as stopped:
            print(f"duet: {stopped}", file=sys.stderr)
            return 130
        _say_done(run)
        return 0


def _add_fields(parser: argparse.ArgumentParser) -> None:
    from dataclasses import MISSING

    from ..methods import METHODS
    from ..training.experiment import STRATEGIES, Experiment
    from ..training.typed import choices

    known = Experiment.__dataclass_fields__
    allowed = {**choices(Experiment), "method": tuple(METHODS), "strategy": STRATEGIES[:2]}
    for title, names in SECTIONS.items():
        section = parser.add_argument_group(title)
        for name in names:
            default = known[name].default
            meaning = known[name].metadata["help"]
            if name == "options":
                section.add_argument(
                    "--option", action="append", dest="options", default=[], metavar="KEY=VALUE", help=meaning
                )
                continue
            shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
            meaning += "" if default in (None, MISSING) else f" [{shown}]"
            flag = "--" + name.replace("_", "-")
            if isinstance(default, bool):
                section.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=meaning)
            else:
                several = "+" if isinstance(default, tuple) else None
                words = "|".join(str(word) for word in allowed.get(name, ()) if word is not None)
                section.add_argument(flag, nargs=several, default=None, metavar=words or name.upper(), help=meaning)


def _resume(run: Path, epochs: str | None, options: dict[str, Any]) -> int:
    from ..training.loop import Stopped
    from ..training.run import resume

    if epochs is not None and not str(epochs).isdigit():
        raise DuetError(f"epochs must be a whole number; it is {epochs!r}")
    try:
        if not resume(run, None if epochs is None else int(epochs), **options):
            print(f"{printable(run)} is finished: its model is in {printable(run / 'model')}; --epochs adds to it")
            return 0
    except Stopped as stopped:
        print(f"duet: {stopped}", file=sys.stderr)
        return 130
    _say_done(run)
    return 0


def _folder(out: Path | None, experiment: Experiment, name: str) -> Path:
    """The run's folder; one that holds a run already is gone on with by --resume only."""
    from ..training.process import choose_folder, rank

    run = choose_folder(out, name, experiment.nodes)
    if rank() == 0 and (run / "config.yaml").exists():
        raise DuetError(f"{run} holds a run already; go on with --resume {run}, or choose another --out")
    return run


def _say_done(run: Path) -> None:
    from ..training.process import rank

    if rank() == 0:
        print(f"The model is in {printable(run / 'model')}: duet.load({str(run)!r})")
