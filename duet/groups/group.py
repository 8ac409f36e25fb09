"""What a transformation group is: a parameter g in [0, 1] and what it does to pixels."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Group(ABC):
    """A transformation tau_g of images, with its parameter mapped to g in [0, 1].

    A group of your own sets the attributes below and implements `transform`; register it with `register_group`.
    """

    name: str
    unit: str = ""
    cyclic: bool = False
    """True when g = 0 and g = 1 are the same element: a circle, not an interval."""
    elements: tuple[float, ...] | None = None
    """The g values of a finite group; None when it is continuous."""
    identity: float = 0.0
    """The g of the untouched image."""
    span: tuple[float, float] = (0.0, 1.0)
    """The raw parameter at g = 0 and at g = 1."""
    channels: int | None = None
    """How many channels an image must have; None when any number will do."""

    @abstractmethod
    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g on checked input: (B,C,H,W) float in [0,1], (B,) -> (B,C,H,W) in [0,1]."""

    def transform_(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The same, but free to overwrite `images`; for images that nobody else holds and no gradient flows to."""
        return self.transform(images, g, generator)

    def apply(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g(x) per sample: (B,C,H,W) float in [0,1] or uint8, (B,) -> (B,C,H,W) float in [0,1].

        `generator` draws the nuisance that g leaves open (the position of a crop); without one it is neutral.
        """
        check_shape(images)
        check_values(images)
        self.check_channels(images)
        images = as_float(images)
        return self.transform(images, self._checked(images, g), generator)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n elements, uniformly: (n,) in [0,1]; true elements only when the group is finite."""
        if self.elements is None:
            return torch.rand(n, generator=generator, device=generator.device)
        elements = torch.tensor(self.elements, device=generator.device)
        return elements[torch.randint(len(elements), (n,), generator=generator, device=generator.device)]

    def parameter(self, g: Tensor | float) -> Tensor:
        """The raw parameter, in `unit`: low (1 - g) + high g."""
        g = torch.as_tensor(g)
        low, high = self.span
        return low * (1 - g) + high * g

    def from_parameter(self, value: Tensor | float) -> Tensor:
        """The g of a raw parameter: (value - low) / (high - low)."""
        low, high = self.span
        value = torch.as_tensor(value)
        return (value.to(torch.get_default_dtype()) if not value.is_floating_point() else value).sub(low) / (high - low)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def check_channels(self, images: Tensor) -> None:
        """Refuse images with too few channels for this group."""
        if self.channels is not None and images.shape[1] != self.channels:
            raise ValueError(
                f"{self.name} needs images with {self.channels} channels and these have {images.shape[1]}; "
                f"for grey images use images.expand(-1, {self.channels}, -1, -1)"
            )

    def _checked(self, images: Tensor, g: Tensor) -> Tensor:
        if not isinstance(g, Tensor) or g.ndim != 1 or len(g) != len(images):
            got = f"of shape {tuple(g.shape)}" if isinstance(g, Tensor) else f"a {type(g).__name__}"
            raise ValueError(f"g must be a tensor of shape ({len(images)},), one number an image; it is {got}")
        g = g.to(device=images.device, dtype=torch.promote_types(images.dtype, torch.float32))
        # Written so that NaN fails too.
        if not bool(((g >= -1e-6) & (g <= 1 + 1e-6)).all()):
            raise ValueError(
                f"g of {self.name} must lie in [0, 1] with no NaN; map raw parameters with from_parameter (unit: "
                f"{self.unit or 'none'}, from {self.span[0]:g} to {self.span[1]:g})"
            )
        return g


def check_shape(images: Tensor) -> tuple[int, int]:
    """Refuse what is not a batch of images; return their (H, W)."""
    if not isinstance(images, Tensor):
        raise TypeError(f"images must be a torch tensor, not {type(images).__name__}; try torch.as_tensor(images)")
    if images.ndim != 4:
        raise ValueError(
            f"images must have shape (B, C, H, W); they have {tuple(images.shape)}"
            + ("; add a batch axis with images[None]" if images.ndim == 3 else "")
        )
    return images.shape[2], images.shape[3]


def check_values(images: Tensor) -> None:
    """Refuse images that are neither uint8 nor float in [0, 1]."""
    if images.dtype == torch.uint8:
        return
    if not images.is_floating_point():
        raise ValueError(f"images must be float in [0, 1] or uint8, not {images.dtype}; convert them first")
    if images.numel():
        low, high = (float(v) for v in torch.aminmax(images.detach()))
        # Written so that NaN fails too; rounding may step a little outside.
        if not (low >= -1e-3 and high <= 1 + 1e-3):
            raise ValueError(
                f"images must lie in [0, 1] with no NaN; these span [{low:.3g}, {high:.3g}]: "
                "undo the normalisation first"
            )


def as_float(images: Tensor) -> Tensor:
    """Float images as they are, uint8 divided by 255."""
    return images if images.is_floating_point() else images.to(torch.get_default_dtype()).div_(255)


GROUPS: dict[str, Group] = {}
"""Every registered group, by name."""


def register_group(group: Group) -> Group:
    """Make a group known by its name, so that stacks, training and evaluation can use it; returns it."""
    if isinstance(group, type):
        raise TypeError(f"register_group takes an instance: register_group({group.__name__}())")
    if not getattr(group, "name", None):
        raise ValueError(f"{type(group).__name__} has no name; set the class attribute `name`")
    if group.name in GROUPS:
        raise ValueError(f"a group named {group.name!r} is registered already; give yours another name")
    if not 0 <= group.identity <= 1:
        raise ValueError(f"the identity of {group.name!r} must lie in [0, 1]; it is {group.identity}")
    if group.elements is not None and group.identity not in group.elements:
        raise ValueError(f"the identity of {group.name!r} must be one of its elements {group.elements}")
    GROUPS[group.name] = group
    return group


def find_group(group: str | Group) -> Group:
    """The group of that name; a Group is returned as it is."""
    if isinstance(group, Group):
        return group
    if group not in GROUPS:
        near = difflib.get_close_matches(group, GROUPS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"no group {group!r}; {hint}there are {', '.join(GROUPS)}")
    return GROUPS[group]
