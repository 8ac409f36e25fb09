"""What a training step costs beyond the backbone itself: ratios, measured in one run.

    python benchmarks/training.py [--repeats 100] [--threads 2] [--only small] [--out runs/bench/training.json]

A step is what the trainer does with a batch of uint8 images: views, forward, losses, head, backward, optimiser. The
bare backbone is one forward and backward on ready views of the same shape.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import torch
from measure import write

from duet.allocator import keep_freed_memory
from duet.evaluation.measuring import medians, peak_bytes, times
from duet.experiment import Experiment, build_method, build_stack
from duet.pretraining import Pretraining, build_optimizer, step_seed

PAPER_ESSL = 2.01  # ESSL over DUET for four rotations, as the paper reports


class Step:
    """One method's training step on a fixed batch, as the trainer runs it."""

    def __init__(self, experiment: Experiment, images: torch.Tensor) -> None:
        torch.manual_seed(0)
        self.experiment, self.images = experiment, images
        self.method, self.stack = build_method(experiment), build_stack(experiment)
        self.labels = torch.arange(len(images)) % 10
        self.module = Pretraining(self.method, self.stack, experiment, _Labelled())
        self.module._trainer = _Alone()  # type: ignore[assignment]
        self.optimizer = build_optimizer(self.module, experiment)
        self.count = itertools.count()

    def __call__(self) -> None:
        loss = self.module.training_step((self.images, self.labels), next(self.count))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def bare(self) -> Any:
        """The same backbone forward and backward on ready tensors."""
        generator = torch.Generator().manual_seed(step_seed(0, 0, 0))
        views = self.method.draw_views(self.images, self.stack, generator).images
        backbone = self.method.backbone

        def run() -> None:
            backbone.zero_grad()
            backbone(views).sum().backward()

        return run


class _Labelled:
    num_classes = 10


class _Alone:
    world_size = 1
    global_rank = 0
    strategy = None


def experiment(encoder: str, batch: int, method: str = "duet", group: str = "rot360") -> Experiment:
    small = encoder == "small"
    return Experiment(
        method=method,  # type: ignore[arg-type]
        group=(group,),
        encoder=encoder,
        batch_size=batch,
        projector=(256, 128) if small else (2048, 2048, 128),
        weight=0.4 if method == "essl" else 100.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=("small", "resnet32"))
    parser.add_argument("--out", type=Path, default=Path("runs/bench/training.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()  # as the command does: both sides of a ratio then run without page faults
    figures: dict[str, Any] = {"repeats": args.repeats}
    # A step of ResNet-32 takes seconds on two cores, and is steadier for it: fewer repeats tell as much.
    settings = {"small": (256, args.repeats, 2, 5), "resnet32": (64, 4, 1, 2)}
    for encoder, (batch, repeats, warm, block) in settings.items():
        if args.only not in (None, encoder):
            continue
        images = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8)
        duet, simclr = (Step(experiment(encoder, batch, m), images) for m in ("duet", "simclr"))
        bare = duet.bare()
        seconds = medians(times({"bare": bare, "duet": duet, "simclr": simclr}, repeats, warm, block))
        rows = {
            "step_ms": 1e3 * seconds["duet"],
            "step_over_backbone": seconds["duet"] / seconds["bare"],
            "duet_over_simclr": seconds["duet"] / seconds["simclr"],
            "memory_over_backbone": peak_bytes(duet) / peak_bytes(bare),
        }
        if encoder == "small":
            for group in ("rot4", "hflip", "hue"):
                pair = {m: Step(experiment(encoder, batch, m, group), images) for m in ("essl", "duet")}
                both = medians(times(pair, min(repeats, 30), warm=2))
                rows[f"essl_over_duet_{group}"] = both["essl"] / both["duet"]
        figures[f"{encoder}_batch{batch}"] = rows
        print(f"\n{encoder}, batch {batch} of 3x32x32, two views each")
        limits = {"small": 1.15, "resnet32": 1.05}
        goals = {
            "step_over_backbone": f"at most {limits[encoder]}",
            "duet_over_simclr": "at most 1.02",
            "memory_over_backbone": "at most 1.3",
            "essl_over_duet_rot4": f"the paper: {PAPER_ESSL}",
        }
        for name, value in rows.items():
            print(f"  {name:<24}{value:>10.3f}   {goals.get(name, '')}")
    write(args.out, figures)
    print(f"\nwritten to {args.out}")


if __name__ == "__main__":
    main()
