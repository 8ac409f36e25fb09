"""What two idle cores give: images a second of each network, what a step costs beside its backbone, and the accuracy
after the same wall time as a plain loop, such as one writes by hand.

    python benchmarks/budget.py [--minutes 30] [--threads 2] [--only networks step rates accuracy] [--out FILE]

The plain loop is SimCLR with a ResNet-18 (CIFAR stem), Kornia's augmentations, Adam and float32; both train on 45,000
CIFAR-10 images ($DUET_DATA) and are judged by logistic regression on the 5,000 that are held out. Speeds are of an
otherwise idle machine. The trainings take as many steps as fit into the minutes at the measured rates, so they may run
beside other work: `--only accuracy` reads the rates from --out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import kornia.augmentation as K
import torch
from measure import write
from recipe import judge
from torch import Tensor, nn
from torch.nn import functional as F
from training import Step

import duet
from duet.allocator import keep_freed_memory
from duet.data import Images
from duet.groups import GROUPS
from duet.networks import build_backbone
from duet.paper.timing import medians, times
from duet.pixels import as_float
from duet.representation import Flat
from duet.training.calibration import keep_aside
from duet.training.experiment import Experiment, open_data

NETWORKS = {"small": 6.6, "resnet8-22mf": 22.5, "resnet8-88mf": 88.5, "resnet18-half": 278.6}
"""MFLOP of a forward pass over a 32x32 image; forward and backward are three times that."""
BATCH = 256
PLAIN = {"batch": 256, "lr": 1e-3, "temperature": 0.5}
PARTS = ("networks", "step", "rates", "accuracy")


def networks(repeats: int) -> dict[str, Any]:
    """Images a second and GFLOP/s of every network in float32 and in bfloat16, in alternating blocks."""
    images = torch.rand(BATCH, 3, 32, 32)
    found = {}
    for name, megaflop in NETWORKS.items():
        backbone = build_backbone(name)

        def run(mixed: bool, backbone: nn.Module = backbone) -> None:
            backbone.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                z = backbone(images)
            z.sum().backward()

        seconds = medians(times({"float32": lambda: run(False), "bf16": lambda: run(True)}, repeats, 2, 2))
        rows: dict[str, Any] = {kind: BATCH / value for kind, value in seconds.items()}
        rows |= {f"{kind}_gflops": 3 * megaflop * rows[kind] / 1e3 for kind in seconds}
        found[name] = {**rows, "bf16_over_float32": seconds["float32"] / seconds["bf16"]}
        text = ", ".join(
            f"{kind} {rows[kind]:,.0f} images/s ({rows[f'{kind}_gflops']:.0f} GFLOP/s)" for kind in seconds
        )
        print(f"  {name:<16}{text}, {found[name]['bf16_over_float32']:.2f} times", flush=True)
    return found


def step(repeats: int) -> dict[str, Any]:
    """The share of the backbone in a step of the preset `cifar` at every size of its views, and what the rest is."""
    found = {}
    experiments = {
        m: Experiment.preset("cifar", group="rot360", method=m, precision="bf16") for m in ("simclr", "duet")
    }
    sides = {word.partition("@")[0] for word in experiments["simclr"].view_size} or {"32"}
    for method, side in itertools.product(experiments, sorted(sides)):
        experiment = experiments[method]
        images = torch.randint(256, (experiment.batch_size, 3, 32, 32), dtype=torch.uint8)
        own = Step(experiment, images)
        own.stack = own.stack.without(size=int(side))
        drawn = lambda own=own: own.method.draw_views(own.images, own.stack, torch.Generator().manual_seed(0))  # noqa: E731
        timed = {"step": own, "backbone": own.bare(), "views": drawn, "rest": own.rest()}
        seconds = medians(times(timed, repeats, 1, 1))
        shares = {name: seconds[name] / seconds["step"] for name in ("backbone", "views", "rest")}
        found[f"{method} at {side}"] = {"step_seconds": seconds["step"], **shares}
        print(
            f"  {method} at {side:<8}" + ", ".join(f"{name} {share:.1%}" for name, share in shares.items()), flush=True
        )
    return found


def rates(preset: str) -> dict[str, Any]:
    """Seconds of a step of the plain loop and of an epoch of ours: with them a training needs no idle machine."""
    experiment = simclr(preset)
    images = torch.randint(256, (int(PLAIN["batch"]), 3, 32, 32), dtype=torch.uint8)
    plain = Plain(as_float(images))
    found = {
        "plain_step_seconds": medians(times({"plain": lambda: plain.step(images)}, 5, 1, 1))["plain"],
        "duet_epoch_seconds": epoch_seconds(experiment, 45_000),
        "preset": preset,
    }
    print(f"  {found}", flush=True)
    return found


def accuracy(minutes: float, measured: Mapping[str, Any], keep: Path | None) -> dict[str, Any]:
    """Held-out accuracy of ours and of the plain loop, each after the steps that so many idle minutes hold."""
    experiment = simclr(measured["preset"])
    kept = keep_aside(open_data(experiment), True, experiment.batch_size)
    epochs = max(1, int(60 * minutes / measured["duet_epoch_seconds"]))
    folder = keep or Path(tempfile.mkdtemp())
    duet.train(replace(experiment, epochs=epochs), folder / "run", quiet=True)
    ours = judge(duet.load(folder / "run", device="cpu"), kept)
    found: dict[str, Any] = {"minutes": minutes, "duet": {**ours, "epochs": epochs}}
    print(f"  {measured['preset']:<16}{found['duet']}", flush=True)
    steps = int(60 * minutes / measured["plain_step_seconds"])
    plain = Plain(as_float(kept.trained.sample(10_000, 0)))
    plain.train(kept.trained, steps)
    done = steps * int(PLAIN["batch"]) / len(kept.trained)
    found["plain"] = {**judge(plain.encoder(), kept), "epochs": done, "steps": steps}
    print(f"  plain loop      {found['plain']}", flush=True)
    return found


def simclr(preset: str) -> Experiment:
    """SimCLR with the full stack, as the preset trains it, with a tenth of the images held out."""
    keys = {"method": "simclr", "group": "hflip", "stack": "full", "calibrate": True, "action_pairs": 0}
    return Experiment.preset(preset, **keys)


def epoch_seconds(experiment: Experiment, images: int) -> float:
    """Seconds of an epoch, from the steps at every size of the views."""
    total, before = 0.0, 0.0
    for word in experiment.view_size or (str(experiment.image_size),):
        side, _, until = word.partition("@")
        own = Step(experiment, torch.randint(256, (experiment.batch_size, 3, 32, 32), dtype=torch.uint8))
        own.stack = own.stack.without(size=int(side))
        seconds = medians(times({"step": own}, 3, 1, 1))["step"]
        total += (float(until or 1) - before) * seconds
        before = float(until or 1)
    return total * (images // experiment.batch_size)


class Plain:
    """SimCLR as one writes it by hand: ResNet-18 with the CIFAR stem, Kornia's augmentations, Adam, float32."""

    def __init__(self, sample: Tensor) -> None:
        torch.manual_seed(0)
        self.views = nn.Sequential(
            K.RandomResizedCrop((32, 32), scale=(0.2, 1.0), p=1.0),
            K.RandomHorizontalFlip(p=0.5),
            K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
            K.RandomGrayscale(p=0.2),
        )
        self.network = build_backbone("resnet18-cifar")
        self.network.normalise_by(sample.mean((0, 2, 3)), sample.std((0, 2, 3)))
        self.head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
        parameters = [*self.network.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=PLAIN["lr"], weight_decay=1e-6)

    def step(self, batch: Tensor) -> None:
        """One step on a batch of uint8 images."""
        with torch.no_grad():
            pixels = as_float(batch)
            both = torch.cat([self.views(pixels), self.views(pixels)])
        loss = plain_nt_xent(self.head(self.network(both)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def train(self, images: Images, steps: int) -> None:
        """So many steps, with a cosine schedule over them."""
        epoch_of = itertools.count()
        batches = itertools.chain.from_iterable(images.batches(int(PLAIN["batch"]), 0, epoch) for epoch in epoch_of)
        for step, (batch, _) in enumerate(itertools.islice(batches, steps)):
            for group in self.optimizer.param_groups:
                group["lr"] = PLAIN["lr"] * 0.5 * (1 + math.cos(math.pi * step / steps))
            self.step(batch)

    def encoder(self) -> duet.Encoder:
        """What was trained, without its head."""
        self.network.eval()
        return duet.Encoder(self.network, Flat(self.network.dim), [GROUPS["hflip"]])


def plain_nt_xent(z: Tensor) -> Tensor:
    """The contrast of SimCLR in three lines."""
    z = F.normalize(z, dim=1)
    similarity = (z @ z.T / PLAIN["temperature"]).fill_diagonal_(-1e9)
    return F.cross_entropy(similarity, torch.arange(len(z)).roll(len(z) // 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of each training [%(default)s]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--preset", default="cifar-best", help="[%(default)s]")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="train ours there; a run that stopped is resumed")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/budget.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    parts = {
        "networks": lambda: networks(args.repeats),
        "step": lambda: step(args.repeats),
        "rates": lambda: rates(args.preset),
        "accuracy": lambda: accuracy(args.minutes, figures["rates"], args.keep),
    }
    figures: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    if "accuracy" in args.only and "rates" not in {*figures, *args.only}:
        parser.error(f"no rates in {args.out}; measure them first, on an idle machine, with --only rates")
    for name in args.only:
        print(f"\n{name}", flush=True)
        figures[name] = parts[name]()
        write(args.out, figures)
    print(f"\nwritten to {args.out}")


if __name__ == "__main__":
    main()
