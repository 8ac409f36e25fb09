"""Where tensors are computed, and how precisely."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .error import DuetError

DEVICES = ("auto", "cpu", "cuda", "mps")


def widest(tensor: torch.Tensor) -> torch.dtype:
    """The most precise type that a tensor's device has: float64, on Apple's float32."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


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
    if device.type not in DEVICES:
        raise DuetError(f"no device {name!r}; there are {', '.join(DEVICES)}")
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[device.type]
    if (device.index or 0) >= there:
        count = f"only {there} of" if there else "no"
        raise DuetError(f"this machine has {count} {device.type} that torch can use; take --device cpu, or auto")
    return device


def has_native_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware: on a CPU by its flags, AVX512-BF16 or AMX."""
    if device.type == "cpu":
        return any(_flags().get(flag, False) for flag in ("avx512_bf16", "amx_bf16"))
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return False


@cache
def has_amx() -> bool:
    """Whether the CPU multiplies matrices of bfloat16 in tiles (AMX)."""
    return bool(_flags().get("amx_bf16", False))


def _flags() -> Mapping[str, Any]:
    """The flags of the CPU as torch names them, or as the system lists them where torch does not."""
    return torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else _processor_flags()


def _processor_flags() -> dict[str, bool]:
    """The flags of the first processor, where the system lists them; for a torch that does not tell."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return dict.fromkeys(flags.split(), True)


def full_precision(like: Tensor) -> AbstractContextManager[Any]:
    """No autocast where `like` is computed; a device without any, such as meta, needs nothing."""
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
