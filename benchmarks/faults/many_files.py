"""`duet embed` of very many small files: does its memory depend on their number?

python benchmarks/faults/many_files.py [--count 200000] [--model digits-rot360] [--out FILE]

A tenth of the files first, then all of them: the most memory that the process held is compared. The files are a
thousand small images under many names (hard links), so that they need little room.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from process import resident, start

sys.path.append(str(Path(__file__).parents[1]))
from measure import write

FLAT = 1.02
"""How much more memory ten times the files may take."""
A_FOLDER = 1000


def make_files(folder: Path, count: int) -> None:
    """So many small images, a thousand in each folder."""
    noise = np.random.default_rng(0)
    (folder / "0").mkdir(parents=True)
    for number in range(min(count, A_FOLDER)):
        Image.fromarray(noise.integers(0, 256, (12, 12), dtype=np.uint8)).save(folder / "0" / f"{number:06}.png")
    for number in range(A_FOLDER, count):
        place = folder / str(number // A_FOLDER)
        place.mkdir(exist_ok=True)
        os.link(folder / "0" / f"{number % A_FOLDER:06}.png", place / f"{number:06}.png")


def embed(folder: Path, table: Path, model: str) -> dict[str, float]:
    """Rows, seconds, and the most memory (MB) of a process that embeds a folder."""
    begun, most = time.monotonic(), 0.0
    process = start(["embed", str(folder), "-o", str(table), "--model", model])
    while process.poll() is None:
        most = max(most, resident(process.pid))
        time.sleep(0.05)
    assert process.stderr is not None
    if process.returncode:
        raise SystemExit(f"duet embed ended with {process.returncode}: {process.stderr.read()[-300:]}")
    rows = pq.ParquetFile(table).metadata.num_rows
    return {"rows": rows, "seconds": time.monotonic() - begun, "memory_mb": most}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000, help="files [%(default)s]")
    parser.add_argument("--model", default="digits-rot360", help="a run or a model [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/many_files.json"))
    args = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        for count in (args.count // 10, args.count):
            folder = Path(name) / str(count)
            make_files(folder, count)
            figures[count] = found = embed(folder, Path(name) / f"{count}.parquet", args.model)
            told = f"{found['rows']:.0f} rows in {found['seconds']:.0f} s"
            print(f"{count} files: {told}, at most {found['memory_mb']:.0f} MB", flush=True)
    fewer, all_of_them = figures.values()
    growth = all_of_them["memory_mb"] / fewer["memory_mb"]
    whole = all(found["rows"] == count for count, found in figures.items())
    print(f"ten times the files: {growth:.3f} times the memory")
    write(args.out, {"model": args.model, "files": figures, "growth": growth})
    return int(growth > FLAT or not whole)


if __name__ == "__main__":
    sys.exit(main())
