"""What `duet embed` and `duet orient` cost beside Pillow's decoding and the bare forward passes, in one run.

python benchmarks/embed.py [MODEL] [--images 2000] [--side 128] [--repeats 5] [--threads 2] [--out FILE]

JPEGs of noise that was smoothed, about as large as photos of that side. Pillow's decoding: one loop, one thread,
nothing but Pillow and NumPy. Orienting reports the angles alone, and writes no copies. The ratio is each command's
time over the sum of both parts, the least of all repeats of each: other work on the machine only adds to them.
Reading in turn and ahead: files to features, when all cores decode and then all compute, and when the next batch is
decoded while the network computes; their ratio is the median over the repeats, each against its neighbour.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measure import write
from PIL import Image, ImageFilter

import duet
from duet.application import embed_files, orient_files
from duet.application.files import Reader, find_files


def make_photos(folder: Path, count: int, side: int) -> list[Path]:
    """So many JPEGs."""
    random = np.random.default_rng(0)
    paths = [folder / f"{number:05}.jpg" for number in range(count)]
    for path in paths:
        noise = Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8))
        noise.filter(ImageFilter.GaussianBlur(2)).save(path, quality=85)
    return paths


def decode_plainly(paths: list[Path], channels: int, side: int) -> np.ndarray[Any, Any]:
    """Pixels (N, H, W[, C]) by Pillow alone."""
    pixels = []
    for path in paths:
        with Image.open(path) as image:
            image.draft(None, (2 * side, 2 * side))
            small = image.convert("L" if channels == 1 else "RGB").resize((side, side), Image.Resampling.BICUBIC)
            pixels.append(np.asarray(small))
    return np.stack(pixels)


def read_files(folder: Path, encoder: duet.Encoder, ahead: bool) -> None:
    """All features of a folder, and nothing done with them."""
    reader = Reader(encoder, 256)
    reader.ahead = ahead
    for _ in reader.batches(find_files([folder]), None, "reading"):
        pass


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="digits-rot360")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/embed.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    encoder = duet.load(args.model, device="cpu")
    side = encoder.image_size[0] if encoder.image_size else args.side
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        paths = make_photos(folder / "photos", args.images, args.side)
        pixels = torch.from_numpy(decode_plainly(paths, encoder.channels, side)).reshape(args.images, side, side, -1)
        ready = pixels.permute(0, 3, 1, 2).contiguous()
        parts: dict[str, Callable[[], Any]] = {
            "decoding": lambda: decode_plainly(paths, encoder.channels, side),
            "forward": lambda: encoder.features(ready, 256),
            "embed": lambda: embed_files([folder / "photos"], folder / "table.parquet", encoder),
            "in turn": lambda: read_files(folder / "photos", encoder, ahead=False),
            "ahead": lambda: read_files(folder / "photos", encoder, ahead=True),
            "orient": lambda: orient_files([folder / "photos"], encoder, table=folder / "angles.csv", sure=0),
        }
        times: dict[str, list[float]] = {name: [] for name in parts}
        order = random.Random(0)
        for _ in range(args.repeats):
            for part in order.sample(list(parts), len(parts)):
                times[part].append(seconds(parts[part]))
    least = {part: min(found) for part, found in times.items()}
    bare = least["decoding"] + least["forward"]
    for part, found in least.items():
        print(f"{part:<10}{found:>8.3f} s{found / bare:>8.2f}")
    ratios = {part: least[part] / bare for part in ("embed", "orient")}
    over = statistics.median(b / a for a, b in zip(times["in turn"], times["ahead"], strict=True))
    print(f"ahead takes {over:.2f} times what in turn takes")
    ratios["ahead over in turn"] = over
    write(args.out, {"model": args.model, "images": args.images, "side": args.side, "times": times, "ratio": ratios})


if __name__ == "__main__":
    main()
