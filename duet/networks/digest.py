"""A short fingerprint of weights."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def fingerprint(state: Mapping[str, Tensor]) -> str:
    """A short hash of weights."""
    digest = hashlib.sha256()
    for key in sorted(state):
        digest.update(key.encode())
        digest.update(state[key].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
