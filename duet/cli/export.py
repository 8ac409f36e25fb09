"""duet export"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..error import DuetError, printable
from .command import Command, add_turns


class Export(Command):
    """A model as one graph."""

    name = "export"
    summary = "a model as ONNX or torch.export"
    description = """Write encoder, marginals, recovery and the action T_g as one graph for any number of images, and
check it against torch on the way.

  duet export runs/duet-rot360-cifar10 -o model.onnx
  duet export digits-rot360 -o model.pt2

--format model writes a model's folder instead, for duet itself, that does not tell where the images lay; with --half
at half the size.

  duet export runs/duet-rot360-cifar10 -o small/ --format model --half

Inputs: images (B, C, H, W) float in [0, 1]; g (B,). Outputs: features, content, acted (T_g of the features on the
first axis), turned (the same by the spectral action, where the group turns), and for each group marginal_<group>,
g_<group> and spread_<group>. A calibrated model adds probability_<group> and strangeness: sure is a probability of 0.9
or more with a strangeness of 1 or less. A model of differences takes `by` in place of g and gives `shifted` in place of
acted; one without a table takes images and gives features."""

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """The model and the file."""
        parser.add_argument("model", metavar="RUN|NAME", help="a run, a folder, a shipped model, a Hub id")
        parser.add_argument(
            "-o", "--out", type=Path, required=True, metavar="FILE|DIR", help="model.onnx, model.pt2 or a folder"
        )
        parser.add_argument("--format", choices=("onnx", "pt2", "model"), help="default: as the file's name ends")
        parser.add_argument("--half", action="store_true", help="with --format model: weights in half precision")
        add_turns(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Export, and say how far it is from torch."""
        kind = args.format or args.out.suffix.lower().removeprefix(".")
        if kind not in ("onnx", "pt2", "model"):
            raise DuetError(f"{args.out} should end in .onnx or .pt2; or say --format onnx, pt2 or model")
        if args.half and kind != "model":
            raise DuetError("--half is for a model's folder: give --format model")
        from ..model import load

        encoder = load(args.model, args.device, turns=args.turns)
        if kind == "model":
            encoder.save(args.out, public=True, half=args.half)
            size = sum(path.stat().st_size for path in args.out.iterdir() if path.is_file())
            print(f"{printable(args.out)}: {size / 1e6:.1f} MB")
            return 0
        from ..model.export import export

        difference = export(encoder, args.out, kind)
        print(f"{printable(args.out)}: at most {difference:.1g} from torch")
        return 0
