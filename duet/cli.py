"""The command `duet`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run the command; a user's mistake ends with one line on standard error and exit code 2."""
    parser = argparse.ArgumentParser(prog="duet", description="Structured, approximately equivariant image features.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="draw every group's action on a photograph")
    demo.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of the picture (%(default)s)")
    args = parser.parse_args(arguments)
    try:
        _demo(args.out)
    except (ValueError, OSError) as error:
        print(f"duet: {error}", file=sys.stderr)
        return 2
    return 0


def _demo(out: Path) -> None:
    import torch
    from sklearn.datasets import load_sample_image

    from .reproduction.actions import draw_actions

    photograph = torch.from_numpy(load_sample_image("china.jpg").copy())[20:420, 130:530].permute(2, 0, 1)
    image = torch.nn.functional.adaptive_avg_pool2d(photograph.float() / 255, 96)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "actions.png"
    draw_actions(image).savefig(path, dpi=110)
    print(f"What each group does to an image: {path}")
