"""The command `duet`."""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .allocator import keep_freed_memory
from .commands import add_model_commands

if TYPE_CHECKING:
    from .experiment import Experiment

SECTIONS = {
    "what is trained": ("method", "group", "data"),
    "DUET": ("weight", "reference", "layout", "bins", "sigma", "target", "temperature"),
    "views": ("stack", "area", "corners"),
    "network": ("encoder", "dim", "projector"),
    "training": (
        *("epochs", "batch_size", "accumulate", "optimizer", "lr", "betas", "weight_decay", "warmup_epochs"),
        *("seed", "action_pairs"),
    ),
    "images": ("subset", "image_size", "channels", "normalize", "storage"),
    "machine": ("precision", "compile", "devices", "nodes", "strategy", "sync_batchnorm"),
}

TRAIN = """Train an encoder and leave a run's folder: config.yaml, metrics.csv, checkpoints/, model/.

  duet train --preset cpu --data cifar10 --group rot360 --method duet --weight 100
  duet train --preset cpu --data photos/ --image-size 32 --group rot360 hue --layout concatenated
  duet train --resume runs/duet-rot360-cifar10

A flag beats --config, which beats --preset. --print-config shows what would run."""


class Parser(argparse.ArgumentParser):
    """Mistakes end with one line on standard error and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and leave."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def parse_strictly(self, arguments: list[str]) -> argparse.Namespace:
        """Parse; an unknown option is answered with the nearest known one."""
        args, unknown = self.parse_known_args(arguments)
        if unknown:
            parser: Parser = getattr(args, "parser", self)
            flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
            near = difflib.get_close_matches(unknown[0].split("=")[0], flags, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            parser.exit(2, f"{parser.prog}: unknown option {unknown[0]}{hint}\n")
        return args


def main(arguments: list[str] | None = None) -> int:
    """Run the command; a user's mistake ends with one line on standard error and exit code 2."""
    parser = Parser(prog="duet", description="Image features that keep a transformation's parameter in view.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    arguments = sys.argv[1:] if arguments is None else arguments
    # The options of a command are read from the library's own types: only its own command waits for that.
    _add_train(commands, whole="train" in arguments[:1])
    _add_evaluate(commands)
    add_model_commands(commands)
    _add_report(commands)
    _add_explore(commands)
    _add_demo(commands)
    args = parser.parse_strictly(arguments)
    keep_freed_memory()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for chatty in ("httpx", "datasets", "fsspec", "urllib3", "huggingface_hub"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        return int(args.run(args) or 0)
    except (ValueError, OSError) as error:
        print(f"duet: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("duet: stopped", file=sys.stderr)
        return 130


def _add_train(commands: Any, whole: bool) -> None:
    parser = commands.add_parser(
        "train",
        help="train DUET, SimCLR or ESSL",
        description=TRAIN,
        usage="duet train [--preset NAME] [--data DATA] [--group GROUP ...] [--out DIR] [option ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=_train, parser=parser)
    parser.add_argument("--preset", metavar="NAME", help="a shipped recipe: demo, cpu, paper, paper-full-stack")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML with the keys below, such as a run's config.yaml"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (default: runs/METHOD-GROUP-DATA)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was stopped")
    parser.add_argument(
        "--print-config", "--print_config", action="store_true", help="show the configuration and leave"
    )
    parser.add_argument("--track", choices=("tensorboard", "wandb"), help="also log there (extra `track`)")
    parser.add_argument(
        "--checkpoint-every", type=int, metavar="STEPS", help="default: after an epoch, at most every ten seconds"
    )
    if not whole:
        return
    from .experiment import Experiment, choices

    known, allowed = Experiment.__dataclass_fields__, choices()
    for title, names in SECTIONS.items():
        section = parser.add_argument_group(title)
        for name in names:
            default = known[name].default
            shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
            meaning = known[name].metadata["help"] + ("" if default is None else f" [{shown}]")
            flag = "--" + name.replace("_", "-")
            if isinstance(default, bool):
                section.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=meaning)
            else:
                several = "+" if isinstance(default, tuple) else None
                words = "|".join(str(word) for word in allowed.get(name, ()) if word is not None)
                section.add_argument(flag, nargs=several, default=None, metavar=words or name.upper(), help=meaning)


def _train(args: argparse.Namespace) -> int:
    from .experiment import dump, from_dict, read, recipe

    options = {"track": args.track, "checkpoint_every": args.checkpoint_every}
    given = {name: getattr(args, name) for names in SECTIONS.values() for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    if args.resume is not None:
        if given or args.preset or args.config or args.out:
            raise ValueError("--resume takes the run's own configuration; give no other option with it")
        return _resume(args.resume, options)
    filed = read(args.config) if args.config else {}
    experiment = from_dict(recipe(args.preset, {**filed, **given}))
    if args.print_config:
        print(dump(experiment), end="")
        return 0
    from .pretraining import Stopped, pretrain

    run = _folder(args.out, experiment)
    try:
        pretrain(experiment, run, **options)
    except Stopped as stopped:
        print(f"duet: {stopped}", file=sys.stderr)
        return 130
    _say_done(run)
    return 0


def _resume(run: Path, options: dict[str, Any]) -> int:
    from .pretraining import Stopped, resume

    try:
        if not resume(run, **options):
            print(f"{run} is finished: its model is in {run / 'model'}")
            return 0
    except Stopped as stopped:
        print(f"duet: {stopped}", file=sys.stderr)
        return 130
    _say_done(run)
    return 0


def _folder(out: Path | None, experiment: Experiment) -> Path:
    """The run's folder, chosen once for all processes of a run."""
    if rank() > 0 and "DUET_RUN" in os.environ:
        return Path(os.environ["DUET_RUN"])
    outside = "RANK" in os.environ or int(os.environ.get("SLURM_NTASKS", 1)) > 1 or experiment.nodes > 1
    if out is None and outside:
        raise ValueError("processes that are started from outside need --out, so that all of them use one folder")
    run = out or _free(Path("runs") / experiment.name)
    if rank() == 0 and (run / "config.yaml").exists():
        raise ValueError(f"{run} holds a run already; go on with --resume {run}, or choose another --out")
    # Lightning starts further processes with this environment and the same command line.
    os.environ["DUET_RUN"] = str(run)
    return run


def rank() -> int:
    """The rank of this process, as torchrun or SLURM tell it; from Lightning's own signs, 0 for the first alone."""
    told = os.environ.get("RANK") or os.environ.get("SLURM_PROCID")
    return int(told) if told else sum(int(os.environ.get(name, 0)) for name in ("NODE_RANK", "LOCAL_RANK"))


def _say_done(run: Path) -> None:
    if rank() > 0:
        return
    print(f"The model is in {run / 'model'}: duet.load({str(run)!r})")


def _free(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, ... that is not taken."""
    taken, number = folder, 1
    while taken.exists():
        number += 1
        taken = folder.with_name(f"{folder.name}-{number}")
    return taken


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser("demo", help="train on digits, evaluate, and draw what was learned")
    parser.set_defaults(run=_demo, parser=parser)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder (default: %(default)s)")


def _demo(args: argparse.Namespace) -> int:
    from .report import write_report
    from .reproduction.demo import run_demo

    run_demo(args.out)
    write_report([args.out / "duet", args.out / "simclr"], args.out / "report.html")
    print(f"The report is in {args.out / 'report.html'}")
    return 0


EVALUATE = """Measure what an encoder can do and write RUN/results. What was measured before is kept.
Results of other images, or of another group than the run's first, go to a folder of their name in RUN/results.

  duet evaluate runs/duet-rot360-digits
  duet evaluate runs/duet-rot360-digits --only recovery equivariance
  duet evaluate --encoder mypkg.module:build --group rot360 --data cifar10 --out results/"""


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="measure a trained run, or any encoder",
        description=EVALUATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=_evaluate, parser=parser)
    parser.add_argument("runs", nargs="?", metavar="RUN", help="a run's folder")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the evaluations (default: all)")
    parser.add_argument("--force", action="store_true", help="measure again what is there already")
    parser.add_argument("--sizes", default="demo", metavar="demo|paper", help="how much is measured (default: demo)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--data", help="other images than the run's own")
    parser.add_argument("--group", help="another group than the run's first; with --encoder the group")
    parser.add_argument(
        "--encoder", metavar="MODULE:FUNCTION", help="an encoder of your own: a function that builds it"
    )
    parser.add_argument("--image-size", type=int, help="with --encoder: side of the images")
    parser.add_argument("--channels", type=int, default=3, choices=(1, 3), help="with --encoder (default: 3)")
    parser.add_argument("--transfer", nargs="+", metavar="DATA", help="logistic regression on these sets too")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go (default: RUN/results)")


def _evaluate(args: argparse.Namespace) -> int:
    from .data.named import find_source
    from .evaluation import evaluate, open_context, open_encoder_context, results_folder, table, transfer

    if (args.runs is None) == (args.encoder is None):
        raise ValueError("give a run's folder, or --encoder with --group and --data")
    if args.encoder is not None:
        if args.group is None or args.data is None:
            raise ValueError("--encoder needs --group and --data")
        sys.path.insert(0, str(Path.cwd()))
        size = {"image_size": args.image_size, "channels": args.channels}
        context = open_encoder_context(args.encoder, args.group, args.data, sizes=args.sizes, seed=args.seed, **size)
    else:
        context = open_context(args.runs, data=args.data, group=args.group, sizes=args.sizes, seed=args.seed)
    out = args.out or (results_folder(args.runs, context) if args.runs is not None else None)
    for name in args.transfer or ():
        find_source(name)  # a wrong name is an error now, not after all else
    results = evaluate(context, args.only, force=args.force, out=out)
    if args.transfer:
        found = transfer(context, args.transfer)
        results[found.name] = found
        if out is not None:
            found.save(out)
    print(table(results))
    if out is not None:
        print(f"written to {out}")
    return 0


def _add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report", help="write one page about one run, or several side by side", allow_abbrev=False
    )
    parser.set_defaults(run=_report, parser=parser)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder")
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the page (default: RUN/report.html, of several report.html)"
    )


def _report(args: argparse.Namespace) -> int:
    from .report import write_report

    default = args.runs[0] / "report.html" if len(args.runs) == 1 else Path("report.html")
    print(f"The report is in {write_report(args.runs, args.out or default)}")
    return 0


def _add_explore(commands: Any) -> None:
    parser = commands.add_parser(
        "explore", help="open a local page: pick an image, see P(g|x), move g (extra `explore`)", allow_abbrev=False
    )
    parser.set_defaults(run=_explore, parser=parser)
    parser.add_argument("model", metavar="RUN", help="a run's folder, or a model's name")
    parser.add_argument("--port", type=int, help="default: the first free one from 7860")
    parser.add_argument("--no-browser", action="store_true", help="only serve the page")


def _explore(args: argparse.Namespace) -> int:
    from .explorer import explore

    explore(args.model, args.port, browser=not args.no_browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
