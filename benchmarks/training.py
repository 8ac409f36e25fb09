"""What a training step costs beyond the backbone itself: ratios, measured side by side.

    python benchmarks/training.py [--processes 9] [--threads 2] [--only small] [--out runs/bench/training.json]

A step is what the trainer does with a batch of uint8 images: views, forward, losses, head, backward, optimiser. The
bare backbone is one forward and backward on ready views of the same shape. The rest is the step on ready features:
all but the backbone, timed apart, which still tells something where whole steps take seconds and scatter by more.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
from pathlib import Path
from typing import Any

import torch
from measure import write

from duet.allocator import keep_freed_memory
from duet.methods import Represented
from duet.networks import OnlineHead
from duet.paper.timing import medians, peak_bytes, times
from duet.training.experiment import Experiment, build_method, build_optimizer, build_stack
from duet.training.step import loss_of_batch, parameter_groups, step_seed

PAPER_ESSL = 2.01  # ESSL over DUET for four rotations, as the paper reports


class Step:
    """One method's training step on a fixed batch, as the trainer runs it."""

    def __init__(self, experiment: Experiment, images: torch.Tensor) -> None:
        torch.manual_seed(0)
        self.experiment, self.images = experiment, images
        self.method, self.stack = build_method(experiment), build_stack(experiment)
        self.labels = torch.arange(len(images)) % 10
        self.head = OnlineHead(self.method.backbone.dim, 10)
        self.optimizer = build_optimizer(parameter_groups(self.method, self.head), experiment)
        self.count = itertools.count()

    def __call__(self) -> None:
        loss = self.loss()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def loss(self) -> torch.Tensor:
        """What the trainer differentiates."""
        generator = torch.Generator().manual_seed(step_seed(0, next(self.count), 0))
        with self.mixed():
            return loss_of_batch(self.method, self.stack, self.images, generator, self.head, self.labels)[0]

    def mixed(self) -> torch.autocast:
        """The precision of the experiment."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.experiment.precision == "bf16")

    def bare(self) -> Any:
        """The same backbone forward and backward on ready tensors."""
        generator = torch.Generator().manual_seed(step_seed(0, 0, 0))
        views = self.method.draw_views(self.images, self.stack, generator).images
        backbone = self.method.backbone

        def run() -> None:
            backbone.zero_grad()
            with self.mixed():
                features = backbone(views)
            features.sum().backward()

        return run

    def rest(self) -> Any:
        """The step without its backbone: its features are there, and so are its gradients for the optimiser."""
        self.bare()()
        features = torch.randn(self.method.view_count * len(self.images), self.method.backbone.dim, requires_grad=True)
        represent = self.method.represent

        def run() -> None:
            features.grad = None
            self.method.represent = lambda views: Represented(features)  # type: ignore[method-assign]
            try:
                self.loss().backward()
            finally:
                self.method.represent = represent  # type: ignore[method-assign]
            self.optimizer.step()

        return run


def experiment(encoder: str, batch: int, method: str = "duet", group: str = "rot360") -> Experiment:
    small = encoder == "small"
    return Experiment(
        method=method,
        group=(group,),
        encoder=encoder,
        batch_size=batch,
        projector=(256, 128) if small else (2048, 2048, 128),
        weight={"essl": 0.4, "duet": 100.0}.get(method),
    )


# Encoder: batch, repeats, warm-up calls, calls in a block. A step of ResNet-32 takes seconds on two cores: fewer
# repeats have to do.
SETTINGS = {"small": (256, 60, 2, 5), "resnet32": (64, 9, 1, 3)}
GOALS = {"step_over_backbone": {"small": 1.15, "resnet32": 1.05}, "duet_over_simclr": 1.02, "memory_over_backbone": 1.3}


def step_costs(encoder: str) -> dict[str, float]:
    """DUET's step beside the bare backbone's and SimCLR's."""
    batch, repeats, warm, block = SETTINGS[encoder]
    images = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8)
    duet, simclr = (Step(experiment(encoder, batch, m), images) for m in ("duet", "simclr"))
    bare = duet.bare()
    seconds = medians(times({"bare": bare, "duet": duet, "simclr": simclr}, repeats, warm, block))
    rest = medians(times({"rest": duet.rest()}, max(repeats, 30), warm, block))["rest"]
    return {
        "step_ms": 1e3 * seconds["duet"],
        "step_over_backbone": seconds["duet"] / seconds["bare"],
        "rest_over_backbone": rest / seconds["bare"],
        "duet_over_simclr": seconds["duet"] / seconds["simclr"],
        "memory_over_backbone": peak_bytes(duet) / peak_bytes(bare),
    }


def essl_costs(repeats: int = 30) -> dict[str, float]:
    """ESSL's step over DUET's, for a group of four, of two and a continuous one."""
    batch = SETTINGS["small"][0]
    images = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8)
    ratios = {}
    for group in ("rot4", "hflip", "hue"):
        seconds = medians(
            times({m: Step(experiment("small", batch, m, group), images) for m in ("essl", "duet")}, repeats, warm=2)
        )
        ratios[f"essl_over_duet_{group}"] = seconds["essl"] / seconds["duet"]
    return ratios


def in_fresh_processes(encoder: str, count: int, threads: int) -> list[dict[str, float]]:
    """`step_costs` of several processes: where a process's memory happens to lie moves its ratios by a few percent."""
    context = multiprocessing.get_context("spawn")
    found = []
    for _ in range(count):
        with context.Pool(1, prepare, (threads,)) as pool:
            found.append(pool.apply(step_costs, (encoder,)))
    return found


def prepare(threads: int) -> None:
    """Set up a process as the command does: both sides of a ratio then run without page faults."""
    torch.set_num_threads(threads)
    keep_freed_memory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--processes", type=int, default=9, help="fresh processes for `small`; their median is reported"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=tuple(SETTINGS))
    parser.add_argument("--out", type=Path, default=Path("runs/bench/training.json"))
    args = parser.parse_args()
    prepare(args.threads)
    figures: dict[str, Any] = {}
    for encoder in [args.only] if args.only else SETTINGS:
        runs = in_fresh_processes(encoder, args.processes if encoder == "small" else 1, args.threads)
        rows = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        print(f"\n{encoder}, batch {SETTINGS[encoder][0]} of 3x32x32, two views each, {len(runs)} processes")
        for name, value in rows.items():
            goal = GOALS.get(name, "")
            goal = goal[encoder] if isinstance(goal, dict) else goal
            spread = f"{min(run[name] for run in runs):.3f} to {max(run[name] for run in runs):.3f}"
            print(f"  {name:<24}{value:>10.3f}   {spread:<20}{f'at most {goal}' if goal else ''}")
        figures[f"{encoder}_batch{SETTINGS[encoder][0]}"] = {"median": rows, "processes": runs}
    if args.only != "resnet32":
        figures["essl"] = essl_costs()
        print("\nESSL's step over DUET's")
        for name, value in figures["essl"].items():
            print(f"  {name:<24}{value:>10.3f}   {f'the paper: {PAPER_ESSL}' if name.endswith('rot4') else ''}")
    write(args.out, figures)
    print(f"\nwritten to {args.out}")


if __name__ == "__main__":
    main()
