"""A training on a disk that fills up: one line, exit code 2, nothing half written, and the same bytes in the end.

python benchmarks/faults/full_disk.py [--sizes 100 300 ...] [--out FILE]

Each size is a disk of so many kilobytes: a tmpfs in a name space of its own, where the system lets users mount one.
Elsewhere it is a limit on the size of files, which fails the same way at another moment. When the training has
stopped, the disk is made large and the run resumed; `same` says that it ended with the bytes of a run that always had
space, `code` and `said` what the first try ended with, `left` what it left half written.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FLAGS = [
    *("--preset", "demo", "--encoder", "tiny", "--epochs", "3", "--subset", "128", "--batch-size", "32"),
    *("--projector", "16", "8", "--action-pairs", "100", "--no-calibrate", "--checkpoint-every", "2"),
]
FILES = ("config.yaml", "metrics.csv", "model/config.json", "model/model.safetensors", "checkpoints/last.safetensors")
LARGE = 2**30
INSIDE = "--inside"


def duet(arguments: list[str], limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command, with a limit on the size of files where one is given."""
    before = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); " if limit else ""
    code = f"{before}import sys; from duet.cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def contents(run: Path) -> dict[str, str]:
    return {name: (run / name).read_bytes().hex() for name in FILES if (run / name).exists()}


def can_mount() -> bool:
    """Whether a user may mount a disk of their own."""
    try:
        line = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "mount",
            "-t",
            "tmpfs",
            "none",
            tempfile.gettempdir(),
        ]
        return subprocess.run(line, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def fill(size: int, folder: Path, mounted: bool) -> dict[str, Any]:
    """A training in `folder` with so many bytes, then again with enough."""
    if mounted:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    run = folder / "run"
    first = duet(["train", *FLAGS, "--out", str(run)], None if mounted else size)
    left = [str(path.relative_to(folder)) for path in folder.rglob(".*")]
    begun = (run / "config.yaml").exists()
    if mounted:
        subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(folder)], check=True)
    second = duet(["train", "--resume", str(run)] if begun else ["train", *FLAGS, "--out", str(run)])
    said = [line for line in first.stderr.splitlines() if line.startswith(("duet: ", "Traceback"))]
    return {"kilobytes": size // 1024, "code": first.returncode, "said": said, "left": left, "begun": begun,
            "then": second.returncode, "files": contents(run)}  # fmt: skip


def inside(size: int, mounted: bool) -> dict[str, Any]:
    """The same, in a process that may mount."""
    with tempfile.TemporaryDirectory() as folder:
        if not mounted:
            return fill(size, Path(folder), False)
        line = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, __file__, INSIDE, str(size), folder]
        return dict(json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1, 40, 200, 400, 800, 1200, 2000, 3000], help="kilobytes"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/faults/full_disk.json"), help="[%(default)s]")
    parser.add_argument(INSIDE, nargs=2, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.inside:
        print(json.dumps(fill(int(args.inside[0]), Path(args.inside[1]), True)))
        return
    mounted = can_mount()
    with tempfile.TemporaryDirectory() as folder:
        assert duet(["train", *FLAGS, "--out", f"{folder}/whole"]).returncode == 0
        wanted = contents(Path(folder) / "whole")
    tries = []
    for size in args.sizes:
        found = inside(1024 * size, mounted)
        found["same"] = found.pop("files") == wanted
        tries.append(found)
        print(json.dumps(found), flush=True)
    figures = {"disk": "tmpfs" if mounted else "limit on files", "tries": tries}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
