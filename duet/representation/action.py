"""What an action on features is: one interface for the prescribed, the fitted and every other T."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from ..error import DuetError


class Action(ABC):
    """T on features: what they would be if the image were transformed further. `title` says whose T it is."""

    name: ClassVar[str]
    title: ClassVar[str]
    meaning: ClassVar[str] = ""
    """What it does, in a few plain words."""

    @abstractmethod
    def act(self, z: Tensor, by: float | Tensor) -> Tensor:
        """T_by z, `by` a number or one a sample, of any size: (B, D), (B,) -> (B, D)."""

    def carry(self, z: Tensor, start: float | Tensor, goal: float | Tensor) -> Tensor:
        """Features of images at the element `start`, taken to `goal`: (B, D), (B,), (B,) -> (B, D)."""
        return self.act(z, goal - start)

    def orbit(self, z: Tensor, start: float, goals: Tensor) -> Tensor:
        """Features of images at `start`, taken to every one of the goals: (B, D), (n,) -> (n, B, D)."""
        return torch.stack([self.carry(z, start, float(goal)) for goal in goals])


def per_sample(value: float | Tensor, like: Tensor) -> Tensor:
    """(B,) on the device and in the precision of `like` (B, ...), from a number, a (1,) or a (B,) tensor."""
    numbers = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if numbers.ndim > 1 or numbers.numel() not in (1, like.shape[0]):
        raise DuetError(f"one number, or one a sample ({like.shape[0]}), not a tensor of shape {tuple(numbers.shape)}")
    return numbers.expand(like.shape[0])
