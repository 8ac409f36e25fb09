"""Where figures were taken, and how they are written."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import torch


def machine() -> dict[str, Any]:
    """Where the figures were taken."""
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "processor": platform.machine()}


def write(path: Path, figures: dict[str, Any]) -> None:
    """Write the figures as JSON, with the machine beside them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), **figures}, indent=2) + "\n")
