"""What an image tensor is: (B, C, H, W), uint8 or float in [0, 1]."""

from __future__ import annotations

import torch
from torch import Tensor

from .error import DuetError


def check_shape(images: Tensor) -> tuple[int, int]:
    """Refuse what is not a batch of images; return their (H, W)."""
    if not isinstance(images, Tensor):
        raise TypeError(f"images must be a torch tensor, not {type(images).__name__}; try torch.as_tensor(images)")
    if images.ndim != 4:
        raise DuetError(
            f"images must have shape (B, C, H, W); they have {tuple(images.shape)}"
            + ("; add a batch axis with images[None]" if images.ndim == 3 else "")
        )
    return images.shape[2], images.shape[3]


def check_values(images: Tensor) -> None:
    """Refuse images that are neither uint8 nor float in [0, 1]."""
    if images.dtype == torch.uint8:
        return
    if not images.is_floating_point():
        raise DuetError(f"images must be float in [0, 1] or uint8, not {images.dtype}; convert them first")
    if images.numel() and not images.is_meta:
        low, high = (float(v) for v in torch.aminmax(images.detach()))
        # Written so that NaN fails too; rounding may step a little outside.
        if not (low >= -1e-3 and high <= 1 + 1e-3):
            whole = low >= -1e-3 and 2 < high <= 255 + 1e-3
            what = "divide them by 255" if whole else "undo the normalisation first"
            raise DuetError(f"images must lie in [0, 1] with no NaN; these span [{low:.3g}, {high:.3g}]: {what}")


def as_float(images: Tensor) -> Tensor:
    """Float images as they are, uint8 divided by 255."""
    return images if images.is_floating_point() else images.to(torch.get_default_dtype()).div_(255)


def as_bytes(images: Tensor) -> Tensor:
    """uint8 images as they are, float ones times 255 and rounded."""
    return images if images.dtype == torch.uint8 else images.mul(255).round().clamp(0, 255).to(torch.uint8)
