"""How much memory it takes to load a model, beside the size of its files.

python benchmarks/faults/memory.py [MODEL ...] [--out FILE]

Each model is loaded in a process of its own, which has loaded all libraries before. What counts is how far the peak of
its resident memory rises, as Linux tells it. Without models: the shipped ones, and a ResNet-18 and a ResNet-50 with
random weights and a fitted action, each in single and in half precision. The last column is the share of what is
allowed, 2.5 times the files plus 200 MB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from measure import write

from duet.model import Encoder
from duet.model.hub import find_model, shipped_models
from duet.networks import OnlineHead, build_backbone
from duet.representation import Axis, FittedAction, Table, VonMises

TIMES, MORE = 2.5, 200
LOADER = """
import re, sys
import duet

def peak():  # not getrusage, which begins with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

duet.load("digits-rot360", "cpu")
before = peak()
duet.load(sys.argv[1], "cpu")
print(peak() - before)
"""


def make_model(name: str, folder: Path, half: bool) -> Path:
    """A model with random weights, a head of 100 classes and an action."""
    torch.manual_seed(0)
    backbone = build_backbone(name)
    dim = backbone.dim
    action = FittedAction.fit(torch.randn(64, dim), torch.randn(64, dim), torch.rand(64), cyclic=True, order=1)
    layout = Table(dim // 16, Axis("rot360", 16, VonMises()))
    encoder = Encoder(backbone, layout, ["rot360"], actions={"rot360": action}, head=OnlineHead(dim, 100))
    return encoder.save(folder / f"{name}{'-half' if half else ''}", half=half)


def growth(model: Path) -> float:
    """Megabytes by which the peak rises while a model is loaded."""
    done = subprocess.run([sys.executable, "-c", LOADER, str(model)], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--out", type=Path, default=Path("runs/faults/memory.json"))
    args = parser.parse_args()
    with TemporaryDirectory() as name:
        folders = args.models or [
            *(find_model(shipped) for shipped in shipped_models()),
            *(make_model(net, Path(name), half) for net in ("resnet18", "resnet50") for half in (False, True)),
        ]
        found = {}
        for folder in folders:
            size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 2**20
            rise = growth(folder)
            share = rise / (TIMES * size + MORE)
            found[folder.name] = {"files_mb": size, "rise_mb": rise, "share": share}
            print(f"{folder.name:<20}{size:>8.1f} MB on disk{rise:>8.1f} MB more memory{share:>7.2f}", flush=True)
    write(args.out, {"times": TIMES, "plus_mb": MORE, "models": found})


if __name__ == "__main__":
    main()
