"""duet evaluate"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ..error import DuetError, printable
from .command import SEED, SIDE, Command, add_turns


class Evaluate(Command):
    """Measure a run, a model or any encoder."""

    name = "evaluate"
    summary = "measure a trained run, or any encoder"
    description = """Measure what an encoder can do and write RUN/results. What was measured before is kept.
Results of other images, of another group than the run's first or of other turns than the model's own go to a folder of
their name in RUN/results.

  duet evaluate runs/duet-rot360-digits
  duet evaluate runs/duet-rot360-digits --only recovery equivariance
  duet evaluate --encoder mypkg.module:build --group rot360 --data cifar10 --out results/

`duet list evaluations` says what there is."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """What is measured, and on what."""
        parser.add_argument("model", nargs="?", metavar="RUN", help="a run's folder, a model's, a shipped model")
        parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the evaluations (default: all)")
        parser.add_argument("--force", action="store_true", help="measure again what is there already")
        parser.add_argument(
            "--sizes", default="demo", metavar="quick|demo|paper", help="how much is measured [%(default)s]"
        )
        parser.add_argument(
            "--decoder", metavar="small|paper", help="size and training of the decoder (default: as the sizes have it)"
        )
        parser.add_argument(
            "--no-rivals", dest="rivals", action="store_false", help="leave out pixels, untrained network and patches"
        )
        parser.add_argument("--seed", type=SEED, default=0, help="of what is drawn [%(default)s]")
        parser.add_argument("--data", help="other images than the run's own")
        parser.add_argument("--group", help="another group than the run's first; with --encoder the group")
        add_turns(parser)
        parser.add_argument(
            "--encoder", metavar="MODULE:FUNCTION", help="an encoder of your own: a function that builds it"
        )
        parser.add_argument("--image-size", type=SIDE, help="with --encoder: side of the images")
        parser.add_argument("--channels", type=int, default=3, choices=(1, 3), help="with --encoder [%(default)s]")
        parser.add_argument("--transfer", nargs="+", metavar="DATA", help="logistic regression on these sets too")
        parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go (default: RUN/results)")

    def run(self, args: argparse.Namespace) -> int:
        """Measure, write and print."""
        from .. import paper  # noqa: F401 - its evaluations register themselves
        from ..data.named import find_source
        from ..evaluation import evaluate, open_context, open_encoder_context, results_folder, table
        from ..evaluation.suite import find_evaluations, find_sizes
        from ..model.hub import find_model
        from ..training.adoption import adopt_group

        if (args.model is None) == (args.encoder is None):
            raise DuetError("give a run's folder, or --encoder with --group and --data")
        if args.model is not None:
            find_model(args.model)  # a wrong name is said before anything else
        names = find_evaluations(args.only)
        if args.transfer and "transfer" not in names:
            names.append("transfer")
        for name in args.transfer or ():
            find_source(name)  # a wrong name is an error now, not after all else
        group = None if args.group is None else adopt_group(args.group, [])
        sizes = find_sizes(args.sizes)
        sizes = sizes if args.decoder is None else replace(sizes, decoder=args.decoder)
        options = {"sizes": sizes, "seed": args.seed, "device": args.device, "transfer": args.transfer or ()}
        if args.encoder is not None:
            if group is None or args.data is None:
                raise DuetError("--encoder needs --group and --data")
            size = {"image_size": args.image_size, "channels": args.channels}
            context = open_encoder_context(args.encoder, group, args.data, **size, **options)
        else:
            context = open_context(args.model, data=args.data, group=group, turns=args.turns, **options)
        out = args.out or (None if args.model is None else results_folder(args.model, context))
        results = evaluate(context, names, force=args.force, out=out, rivals=args.rivals)
        if not results:
            raise DuetError("nothing could be measured; the lines above say why")
        print(table(results))
        if out is not None:
            print(f"written to {printable(out)}")
        return 0
