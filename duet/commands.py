"""The commands that use a trained model: embed, orient, export."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

MODEL = "digits-rot360"

EMBED = """Write one row for each image that can be read: path, features, and for each group of the model its
estimated parameter and spread in the group's own unit, in the columns <group> and <group>_spread.

  duet embed photos/ -o photos.parquet
  duet embed a.jpg b.jpg -o two.npz --model runs/duet-rot360-photos

Files stream through: millions of them need no more memory than a thousand. What cannot be read is named and left
out."""

ORIENT = """Estimate how far each image is turned from the model's upright, in degrees counter-clockwise, and write
copies turned back. Where the spread is above the threshold the copy is left as it is.

  duet orient scans/ -o upright/
  duet orient scans/ --csv angles.csv
  duet orient scans/ -o upright/ --csv angles.csv --threshold 50

The originals stay. Copies keep name, format and size; corners that the image does not reach are black."""

EXPORT = """Write encoder, marginals, recovery and the action T_g as one graph for any number of images, and check it
against torch on the way.

  duet export runs/duet-rot360-cifar10 -o model.onnx
  duet export digits-rot360 -o model.pt2

Inputs: images (B, C, H, W) float in [0, 1]; g (B,). Outputs: features, content, acted (T_g of the features on the
first axis), and for each group marginal_<group>, g_<group> and spread_<group>. A model of differences takes `by` in
place of g and gives `shifted` in place of acted; one without a table takes images and gives features."""


def _add_command(commands: Any, name: str, summary: str, description: str, run: Any) -> Any:
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def _add_images(parser: Any) -> None:
    parser.add_argument("images", nargs="+", metavar="IMAGES", help="image files, or folders with images at any depth")
    parser.add_argument(
        "--model", default=MODEL, metavar="NAME|RUN", help="a shipped model, a run, a folder, a Hub id [%(default)s]"
    )
    parser.add_argument("--batch-size", type=int, default=256, metavar="N", help="images at a time [%(default)s]")


def add_model_commands(commands: Any) -> None:
    """Add embed, orient and export to the command line; what they need is imported when they run."""
    _add_embed(commands)
    _add_orient(commands)
    _add_export(commands)


def _add_embed(commands: Any) -> None:
    parser = _add_command(commands, "embed", "features of image files, as a table", EMBED, _embed)
    _add_images(parser)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="out.parquet or out.npz")


def _embed(args: argparse.Namespace) -> int:
    if args.out.suffix.lower() not in (".parquet", ".npz"):
        raise ValueError(f"{args.out} should end in .parquet or .npz")
    from .application import embed_files
    from .artifact import load

    rows = embed_files(args.images, args.out, load(args.model), args.batch_size)
    print(f"{rows} {'image' if rows == 1 else 'images'}: {args.out}")
    return 0


def _add_orient(commands: Any) -> None:
    parser = _add_command(commands, "orient", "turn image files upright", ORIENT, _orient)
    _add_images(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="folder for the corrected copies")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="table with path, angle, spread, corrected")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="DEGREES",
        help="largest spread that counts as sure [halfway between a certain and an ignorant marginal: 69 for 8 bins]",
    )


def _orient(args: argparse.Namespace) -> int:
    from .application import orient_files
    from .artifact import load

    done = orient_files(args.images, load(args.model), args.out, args.csv, args.threshold, args.batch_size)
    where = ", ".join(str(path) for path in (args.out, args.csv) if path is not None)
    turned = "turned upright" if args.out is not None else "sure enough to turn"
    print(f"{done.corrected} of {done.readable} images {turned}, the others left alone: {where}")
    return 0


def _add_export(commands: Any) -> None:
    parser = _add_command(commands, "export", "a model as ONNX or torch.export", EXPORT, _export)
    parser.add_argument("model", metavar="RUN|NAME", help="a run, a folder, a shipped model, a Hub id")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="model.onnx or model.pt2")
    parser.add_argument("--format", choices=("onnx", "pt2"), help="default: as the file's name ends")


def _export(args: argparse.Namespace) -> int:
    kind = args.format or args.out.suffix.lower().removeprefix(".")
    if kind not in ("onnx", "pt2"):
        raise ValueError(f"{args.out} should end in .onnx or .pt2; or say --format onnx or --format pt2")
    from .artifact import load
    from .export import export

    difference = export(load(args.model), args.out, kind)
    print(f"{args.out}: at most {difference:.1g} from torch")
    return 0
