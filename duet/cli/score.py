"""duet score"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..error import DuetError, printable
from .command import SEED, SIDE, Command, add_turns


class Score(Command):
    """Compare any encoders."""

    name = "score"
    summary = "compare any encoders: what they know of the class and of a transformation"
    description = """Score any encoders on the same images, beside baselines: the pixels, each network untrained, and
k-means on patches, which needs no gradient. An ENCODER is one of

  runs/duet-rot360-digits   a run, a model's folder, a shipped model, an id on the Hub
  timm:resnet50             a pretrained model of timm, with its own normalisation and size
  mypkg.models:build        a function of yours that returns a module or a function of images in [0, 1]
  untrained:resnet18        a network of ours with fresh weights
  pixels                    the image itself, averaged over cells
  patches                   k-means on whitened patches of the training images, with as many features as the others
  patches:800, :800/256     the same with 800 centroids: all 3,200 features, or the first 256 of them by PCA
  features.parquet          features that you computed: columns id, g in [0, 1] and the features; perhaps label

  duet score digits-rot360 untrained:small --data digits --group rot360 --html card.html
  duet score mypkg.models:build --data photos --group rot360 --layers 'body.blocks.*' --out card.json
  duet score features.parquet --group rot360 --features sensitive.csv"""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """Who is scored, and on what."""
        parser.add_argument("encoders", nargs="+", metavar="ENCODER", help="who is scored; see above")
        parser.add_argument("--data", help="the images; only a file of features needs none")
        parser.add_argument("--group", nargs="+", required=True, metavar="NAME", help="the transformations")
        parser.add_argument(
            "--layers", nargs="+", default=[], metavar="NAME", help="layers to score too, by name or pattern (blocks.*)"
        )
        parser.add_argument(
            "--sizes", default="demo", metavar="quick|demo|paper", help="how much is measured [%(default)s]"
        )
        parser.add_argument("--seed", type=SEED, default=0, help="of what is drawn [%(default)s]")
        parser.add_argument(
            "--image-size", type=SIDE, help="side of the images (default: the largest that an encoder was made for)"
        )
        parser.add_argument(
            "--corners",
            default="circle",
            choices=("circle", "zero"),
            help="rotations through a disc, or with black corners, which give the angle away [%(default)s]",
        )
        parser.add_argument(
            "--no-rivals", dest="rivals", action="store_false", help="leave out pixels, untrained networks and patches"
        )
        add_turns(parser)
        parser.add_argument("--out", type=Path, metavar="FILE", help="all numbers, as JSON")
        parser.add_argument("--html", type=Path, metavar="FILE", help="one page with a table and a picture")
        parser.add_argument(
            "--features", type=Path, metavar="FILE", help="how much the group moves every feature, as CSV"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Score, print, write."""
        from ..evaluation.card import shares_as_csv, write_table
        from ..evaluation.score import score
        from ..file import write_json, write_text
        from ..groups import find_group
        from ..training.adoption import adopt_group

        for path, ending in ((args.out, ".json"), (args.html, ".html"), (args.features, ".csv")):
            if path is not None and path.suffix.lower() != ending:
                raise DuetError(f"{path} should end in {ending}")
        groups = [find_group(adopt_group(name, [])).configured(corners=args.corners) for name in args.group]
        card = score(
            args.encoders,
            groups,
            args.data,
            layers=args.layers,
            sizes=args.sizes,
            seed=args.seed,
            image_size=args.image_size,
            device=args.device,
            rivals=args.rivals,
            shares=args.features is not None,
            turns=args.turns,
        )
        print(write_table(card))
        if args.out is not None:
            write_json(args.out, card.to_dict())
        if args.features is not None:
            write_text(args.features, shares_as_csv(card))
        if args.html is not None:
            from ..report.card import write_card

            write_card(card, args.html)
        for path in (args.out, args.html, args.features):
            if path is not None:
                print(f"written to {printable(path)}")
        return 0
