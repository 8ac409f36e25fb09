"""A streamed set with broken files, trained by two processes: killed and resumed, does it end as in peace?

python benchmarks/faults/stream.py [--images 2000] [--kills 3] [--epochs 4] [--seed 0] [--out FILE]

One file in a hundred is broken: cut, empty or a text. The run is trained once in peace and once with SIGKILLs of both
processes at random moments and --resume after each; weights, metrics and the list of skipped files are compared.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from process import digests, run, run_killed

sys.path.append(str(Path(__file__).parents[1]))
from measure import write

BROKEN = 100
"""One file in so many."""


def make_images(folder: Path, count: int) -> int:
    """So many images in two classes, some of them broken; how many are."""
    noise = np.random.default_rng(0)
    broken = 0
    for number in range(count):
        path = folder / ("first" if number % 2 else "second") / f"{number:06}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 256, (32, 32), dtype=np.uint8)).save(path)
        if number % BROKEN == BROKEN - 1:
            path.write_bytes((path.read_bytes()[:200], b"", b"I am a text.")[broken % 3])
            broken += 1
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, help="files of the set [%(default)s]")
    parser.add_argument("--kills", type=int, default=3, help="the most [%(default)s]")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the set [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="of the moments [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/stream.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        photos = Path(name) / "photos"
        broken = make_images(photos, args.images)
        flags = [
            *("train", "--data", str(photos), "--storage", "stream", "--devices", "2", "--strategy", "ddp"),
            *("--encoder", "tiny", "--channels", "1", "--group", "rot360", "--projector", "32", "16"),
            *("--batch-size", "64", "--epochs", str(args.epochs), "--warmup-epochs", "0", "--action-pairs", "100"),
            *("--checkpoint-every", "5", "--device", "cpu", "--out"),
        ]

        def words(folder: Path) -> list[str]:
            return ["train", "--resume", str(folder)] if (folder / "config.yaml").exists() else [*flags, str(folder)]

        def left(folder: Path) -> dict[str, str]:
            names = ("metrics.csv", "skipped.txt", "model/model.safetensors")
            return digests(path for name in names if (path := folder / name).exists())

        peace, war = Path(name) / "peace", Path(name) / "war"
        seconds = run(words(peace))
        kills = run_killed(lambda: words(war), args.kills, seconds, random.Random(args.seed))
        right, found = left(peace), left(war)
    same = right == found
    differing = sorted(key for key in right if found.get(key) != right[key])
    print(f"{kills} kills, {broken} broken files of {args.images}: {'the same end' if same else f'other {differing}'}")
    write(args.out, {"images": args.images, "broken": broken, "kills": kills, "seconds": seconds, "same": same})
    return int(not (same and kills))  # without a kill nothing was tried


if __name__ == "__main__":
    sys.exit(main())
