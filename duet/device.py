"""Where tensors are computed."""

from __future__ import annotations

import torch

from .error import DuetError

DEVICES = ("auto", "cpu", "cuda", "mps")


def find_device(name: str | torch.device = "auto") -> torch.device:
    """The device of a name, such as cuda or cuda:1; auto is the first accelerator that there is, else the CPU."""
    if isinstance(name, torch.device):
        return name
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DuetError(f"no device {name!r}; there are {', '.join(DEVICES)}") from None
    missing = {"cuda": not torch.cuda.is_available(), "mps": not torch.backends.mps.is_available()}
    if missing.get(device.type, False):
        raise DuetError(f"this machine has no {device.type} that torch can use; take --device cpu, or auto")
    return device
