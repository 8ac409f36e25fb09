"""A model on the trunk lite0, from JPEG files to features, against Pillow's decoding plus ONNX Runtime's own time."""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measure import write
from PIL import Image

from duet.model import Encoder
from duet.networks import OnTrunk, build_on_trunk
from duet.networks.runtime import accelerated
from duet.networks.trunk import ROWS
from duet.representation import Axis, Table, VonMises

LIMIT = 1.3


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def write_images(folder: Path, count: int, size: int) -> list[Path]:
    """Smooth random pictures, about as large on disk as photographs of that size."""
    chance = np.random.default_rng(0)
    paths = []
    for number in range(count):
        coarse = Image.fromarray(chance.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        paths.append(folder / f"{number}.jpg")
        coarse.resize((size, size), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return paths


def measure(count: int, size: int, repeats: int) -> dict[str, float]:
    """Times in turn, round after round, so that what else the machine does falls on all of them; medians."""
    torch.manual_seed(0)
    backbone = build_on_trunk(OnTrunk("lite0"), image_size=(size, size))
    table = Table.from_dim(backbone.dim, Axis("rot360", 16, VonMises(0.06)))
    encoder = Encoder(backbone, table, ["rot360"], image_size=size)
    example = torch.rand(ROWS, 3, size, size)
    session = accelerated(backbone.trunk, example)
    if session is None:
        raise SystemExit("ONNX Runtime is not installed, or differs from torch")
    parts = [torch.rand(min(ROWS, count - start), 3, size, size) for start in range(0, count, ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder), count, size)

        def decode() -> None:
            for path in paths:
                np.asarray(Image.open(path).convert("RGB"))

        tasks = {
            "decoding with Pillow": decode,
            "ONNX Runtime alone": lambda: [session(part) for part in parts],
            "embed": lambda: encoder.embed(paths, progress=False),
            "torch alone": lambda: [backbone.trunk.maps(part) for part in parts],
        }
        with torch.no_grad():
            times: dict[str, list[float]] = {name: [] for name in tasks}
            for task in tasks.values():
                task()
            for _ in range(repeats):
                for name, task in tasks.items():
                    times[name].append(seconds(task))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON")
    parser.add_argument("--count", type=int, default=512, help="images [%(default)s]")
    parser.add_argument("--size", type=int, default=128, help="their side [%(default)s]")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = measure(options.count, options.size, options.repeats)
    for name, value in rows.items():
        print(f"{name:<32}{1000 * value / options.count:10.2f} ms an image")
    ratio = rows["embed"] / (rows["decoding with Pillow"] + rows["ONNX Runtime alone"])
    print(f"{'embed / (decoding + runtime)':<32}{ratio:10.2f}    (at most {LIMIT})")
    if options.out:
        write(options.out, {"images": options.count, "side": options.size, "seconds": rows, "ratio": ratio})


if __name__ == "__main__":
    main()
