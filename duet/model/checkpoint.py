"""Checkpoints without pickle: tensors as safetensors, everything else as JSON in its header, written atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..error import DuetError, first_line
from ..file import whole_file


def write_checkpoint(state: Any, path: Path) -> None:
    """Write nested dicts, lists and plain values with tensors among them; the same state gives the same bytes."""
    tensors: dict[str, Tensor] = {}
    plain = _encode(state, tensors)
    with whole_file(path) as partial:
        save_file(tensors, partial, metadata={"state": json.dumps(plain)})


def read_checkpoint(path: Path) -> Any:
    """The state that `write_checkpoint` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            plain = json.loads((file.metadata() or {})["state"])
        return _decode(plain, tensors)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise DuetError(f"cannot read the checkpoint {path}: {first_line(error)}") from None


def _encode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        key = f"{len(tensors):06d}"
        # A copy, since safetensors refuses tensors that share memory.
        tensors[key] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": key}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, tensors), _encode(v, tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_encode(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {_decode(k, tensors): _decode(v, tensors) for k, v in value["dict"]}
    return value


def as_tensor_like(value: Tensor, like: Tensor) -> Tensor:
    """The values in the memory order of another tensor of the same shape: some kernels round by it."""
    return torch.empty_like(like, dtype=value.dtype).copy_(value) if value.shape == like.shape else value
