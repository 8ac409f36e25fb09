"""Views per second: duet's stacks beside the same stages built from Kornia's modules, in one run.

python benchmarks/views.py [--repeats 15] [--threads 2] [--out runs/bench/views.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import kornia.augmentation as K
import torch
from measure import write

from duet.groups import Stack
from duet.paper.timing import medians, peak_bytes, times


def kornia_rrc_rot360(size: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        K.RandomResizedCrop((size, size), scale=(0.2, 1.0), p=1.0),
        K.RandomRotation(180.0, p=1.0),
    )


def kornia_full_rot360(size: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        K.RandomResizedCrop((size, size), scale=(0.2, 1.0), p=1.0),
        K.RandomHorizontalFlip(p=0.5),
        K.RandomRotation(180.0, p=1.0),
        K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        K.RandomGrayscale(p=0.2),
        K.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.5),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/views.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    pairs = {
        "RRC + rot360": (Stack.rrc_plus("rot360"), kornia_rrc_rot360),
        "full + rot360": (Stack.full("rot360"), kornia_full_rot360),
    }
    rows = []
    for batch, side in ((512, 32), (64, 224)):
        images = torch.rand(batch, 3, side, side)
        for name, (stack, reference) in pairs.items():
            module = reference(side)
            with torch.no_grad():
                seconds = medians(
                    times(
                        {
                            "duet": lambda s=stack, x=images: s(x, generator),
                            "kornia": lambda m=module, x=images: m(x),
                        },
                        args.repeats,
                    )
                )
                copies = peak_bytes(lambda s=stack, x=images: s(x, generator)) / images.nbytes
            rows.append(
                {
                    "stack": name,
                    "batch": f"{batch} x 3x{side}x{side}",
                    "duet_ms": 1e3 * seconds["duet"],
                    "kornia_ms": 1e3 * seconds["kornia"],
                    "ratio": seconds["kornia"] / seconds["duet"],
                    "peak_copies": copies,
                }
            )
    print(
        f"{'stack':<15}{'batch':<17}{'duet ms':>9}{'kornia ms':>11}{'ratio':>8}{'peak memory, copies of the batch':>35}"
    )
    for r in rows:
        print(
            f"{r['stack']:<15}{r['batch']:<17}{r['duet_ms']:>9.1f}{r['kornia_ms']:>11.1f}{r['ratio']:>7.1f}x"
            f"{r['peak_copies']:>35.2f}"
        )
    write(args.out, {"repeats": args.repeats, "rows": rows})
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
