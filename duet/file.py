"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` when all went well, and vanishes otherwise."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file's name")
    path.parent.mkdir(parents=True, exist_ok=True)
    # A folder of its own: the name inside may be as long as a name can be.
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        yield Path(folder) / path.name
        os.replace(Path(folder) / path.name, path)
