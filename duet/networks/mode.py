"""Networks that are asked something in the middle of their training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Every part in evaluation mode, and afterwards as it was."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training
