"""Whether the lower bounds in pyproject.toml are true: install the lowest versions that pip finds, and run tests there.

python .ci/lowest.py [--venv .lowest-venv] [--extras export ...] [--list] [-- pytest arguments]

torch is not installed again: it is large, and the one of this environment is copied into the new one. Everything else
that is declared gets the lowest version with a wheel for this Python; what only they need is left to pip. Without
pytest arguments the whole suite runs; some tests want extras, and fail or are skipped where those are not named.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
COPIED = re.compile(r"(torch|torchgen|functorch|triton|nvidia)(\b|_|-)")
"""What belongs to torch among the folders of an environment."""
TESTING = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "setuptools")


def declared(extras: list[str]) -> list[Requirement]:
    """What pyproject.toml asks for but torch: the core, the named extras, and what the tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = list(project["dependencies"])
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    texts += [text for text in project["optional-dependencies"]["dev"] if Requirement(text).name in TESTING]
    return [found for text in texts if (found := Requirement(text)).name not in ("torch", "duet-ssl")]


def lowest(requirement: Requirement) -> str:
    """The lowest version with a wheel for this Python that pip finds, within the bounds."""
    line = [sys.executable, "-m", "pip", "index", "versions", requirement.name, "--only-binary", ":all:"]
    said = subprocess.run(line, capture_output=True, text=True, check=False)
    listed = re.search(r"^Available versions: (.*)$", said.stdout, flags=re.MULTILINE)
    if listed is None:
        raise SystemExit(f"pip finds no version of {requirement.name}: {said.stderr.strip()}")
    versions = [Version(text) for text in listed.group(1).split(", ")]
    return str(min(requirement.specifier.filter(versions)))


def copy_torch(site: Path) -> None:
    """Copy this environment's torch into another one's packages: through a link pip would write into ours."""
    home = Path(str(importlib.metadata.distribution("torch").locate_file("")))
    for path in home.iterdir():
        if COPIED.match(path.name) and path.is_dir():
            shutil.copytree(path, site / path.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".lowest-venv", help="the new environment [%(default)s]")
    parser.add_argument("--extras", nargs="*", default=[], help="extras whose lower bounds are tried too")
    parser.add_argument("--list", action="store_true", help="say which versions these are, and leave")
    parser.add_argument("tests", nargs="*", help="arguments of pytest, after --")
    args = parser.parse_args()
    pins = [f"{requirement.name}=={lowest(requirement)}" for requirement in declared(args.extras)]
    print("\n".join(pins), flush=True)
    if args.list:
        return 0
    subprocess.run([sys.executable, "-m", "venv", "--clear", args.venv], check=True)
    python = args.venv / "bin" / "python"
    copy_torch(args.venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages")
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    # A package that wants another torch is a conflict to be told, not to be followed.
    subprocess.run([*install, *pins, f"torch=={importlib.metadata.version('torch')}"], check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([python, "-m", "pytest", *args.tests], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
