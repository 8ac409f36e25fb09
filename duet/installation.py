"""How to install more of the package: from where it came itself, a clone, an address or a registry."""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "duet-ssl"
"""The package's name in a registry, as pyproject.toml has it."""
_PACKAGE = Path(__file__).parent


def install_command(extra: str) -> str:
    """The command that installs an extra, such as "pip install '.[photos]'" in a clone."""
    return f"pip install '{_requirement(extra)}'"


def _requirement(extra: str) -> str:
    """What pip is asked for: a folder or file with the extra, or a name with it and perhaps an address."""
    if _is_source(_PACKAGE.parent):
        return f"{_place(_PACKAGE.parent)}[{extra}]"
    came = _origin()
    url = str(came.get("url", ""))
    if urlsplit(url).scheme == "file":
        path = Path(url2pathname(urlsplit(url).path))
        # Of a folder that is gone, the user knows where another is.
        return f"{_place(path) if path.exists() else '.'}[{extra}]"
    vcs = came.get("vcs_info")
    kind = f"{vcs.get('vcs', 'git')}+" if isinstance(vcs, dict) else ""
    return f"{DISTRIBUTION}[{extra}]" + (f" @ {kind}{url}" if url else "")


def _is_source(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file()


def _place(path: Path) -> str:
    """A path as it can be typed here: a dot for the working folder."""
    try:
        return "." if path.resolve() == Path.cwd().resolve() else os.fspath(path)
    except OSError:  # the working folder is gone
        return os.fspath(path)


def _origin() -> dict[str, object]:
    """What the installer noted of where the package came from (PEP 610); nothing where it was a registry."""
    try:
        noted = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
