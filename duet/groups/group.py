"""What a transformation group is: a parameter g in [0, 1] and what it does to pixels."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..domain import Domain, Interval, as_domain
from ..error import DuetError, did_you_mean
from ..pixels import as_float, check_shape, check_values
from ..unit import in_unit

G = TypeVar("G", bound="Group")


class Group(ABC):
    """A transformation tau_g of images, with its parameter mapped to g in [0, 1].

    A group of your own sets the attributes below and implements `transform`; register it with `register_group`.
    """

    name: str
    title: str = ""
    """What it is called in a sentence, such as "rotation"; by default its name."""
    unit: str = ""
    domain: Domain = Interval()
    """Circle() when g = 0 and g = 1 are the same element; `cyclic = True` is short for that."""
    elements: tuple[float, ...] | None = None
    """The g values of a finite group; None when it is continuous."""
    identity: float = 0.0
    """The g of the untouched image."""
    span: tuple[float, float] = (0.0, 1.0)
    """The raw parameter at g = 0 and at g = 1."""
    channels: int | None = None
    """How many channels an image must have; None when any number will do."""
    probability: float = 1.0
    """How likely an element is drawn in the usual stacks; else the image stays as it is."""
    crops: bool = False
    """Whether it is itself the crop that every stack begins with."""
    settings: tuple[str, ...] = ()
    """Attributes that a run may set by their names: arguments of the constructor that `configured` and files know."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        short = cls.__dict__.get("cyclic")
        if isinstance(short, bool):
            cls.domain = as_domain(short)
            del cls.cyclic

    @property
    def cyclic(self) -> bool:
        """Whether g lives on a circle."""
        return self.domain.cyclic

    @abstractmethod
    def transform(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g on checked input: (B,C,H,W) float in [0,1], (B,) -> (B,C,H,W) in [0,1], the input left as it is."""

    def transform_(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The same, but free to overwrite `images`; for images that nobody else holds and no gradient flows to.

        A group that overrides this draws nothing from the generator.
        """
        return self.transform(images, g, generator)

    def apply(self, images: Tensor, g: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """tau_g(x) per sample: (B,C,H,W) float in [0,1] or uint8, (B,) -> (B,C,H,W) float in [0,1].

        `generator` draws the nuisance that g leaves open (the position of a crop); without one it is neutral.
        """
        check_shape(images)
        check_values(images)
        self.check_channels(images)
        images = as_float(images)
        changed = self.transform(images, self._checked(images, g), generator)
        if not isinstance(changed, Tensor) or changed.shape != images.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else f"a {type(changed).__name__}"
            raise DuetError(f"{type(self).__name__}.transform must return images {tuple(images.shape)}, not {got}")
        return changed

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n elements, uniformly: (n,) in [0,1]; true elements only when the group is finite."""
        if self.elements is None:
            return torch.rand(n, generator=generator, device=generator.device)
        elements = torch.tensor(self.elements, device=generator.device)
        return elements[torch.randint(len(elements), (n,), generator=generator, device=generator.device)]

    def drawn_range(self) -> tuple[float, float]:
        """The smallest and the largest g that `sample` draws: a crop's scale, for one, never comes near g = 0."""
        g = self.sample(4096, torch.Generator().manual_seed(0))
        low, high = float(g.min()), float(g.max())
        return 0.0 if low < 0.01 else low, 1.0 if high > 0.99 else high

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

    def write(self, value: float, digits: int = 1) -> str:
        """A raw parameter as text with its unit."""
        return in_unit(value, self.unit, digits)

    def mask(self, images: Tensor) -> Tensor:
        """What of an image can be seen under this group, whatever the element: all of it, unless it says otherwise."""
        return images

    def variants(self) -> dict[str, Group]:
        """The same group shown in other ways, by what each is called: an evaluation measures these too."""
        return {}

    def configured(self: G, **values: Any) -> G:
        """The same group with those of these settings that it has; itself when they change nothing."""
        own = {key: getattr(self, key) for key in self.settings}
        wanted = {**own, **{key: value for key, value in values.items() if key in own}}
        return self if wanted == own else self._with(**wanted)

    def describe(self) -> dict[str, Any]:
        """Plain values that say what its numbers mean, and which settings it has."""
        facts: dict[str, Any] = {
            "group": self.name,
            "title": self.title or self.name,
            "unit": self.unit,
            "span": list(self.span),
            "cyclic": self.cyclic,
            "identity": self.identity,
            "elements": None if self.elements is None else list(self.elements),
        }
        return facts | {key: _plain(getattr(self, key)) for key in self.settings}

    def _with(self: G, **settings: Any) -> G:
        return type(self)(**settings)

    def __repr__(self) -> str:
        settings = "".join(f", {key}={getattr(self, key)!r}" for key in self.settings)
        return f"{type(self).__name__}(name={self.name!r}{settings})"

    def check_channels(self, images: Tensor) -> None:
        """Refuse images with too few channels for this group."""
        if self.channels is not None and images.shape[1] != self.channels:
            raise DuetError(
                f"{self.name} needs images with {self.channels} channels and these have {images.shape[1]}; "
                f"for grey images use images.expand(-1, {self.channels}, -1, -1)"
            )

    def _checked(self, images: Tensor, g: Tensor) -> Tensor:
        if not isinstance(g, Tensor) or g.ndim != 1 or len(g) != len(images):
            got = f"of shape {tuple(g.shape)}" if isinstance(g, Tensor) else f"a {type(g).__name__}"
            raise DuetError(f"g must be a tensor of shape ({len(images)},), one number an image; it is {got}")
        g = g.to(device=images.device, dtype=torch.promote_types(images.dtype, torch.float32))
        # Written so that NaN fails too.
        if not g.is_meta and not bool(((g >= -1e-6) & (g <= 1 + 1e-6)).all()):
            raise DuetError(
                f"g of {self.name} must lie in [0, 1] with no NaN; map raw parameters with from_parameter (unit: "
                f"{self.unit or 'none'}, from {self.span[0]:g} to {self.span[1]:g})"
            )
        return g


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


GROUPS: dict[str, Group] = {}
"""Every registered group, by name."""


def register_group(group: Group) -> Group:
    """Make a group known by its name, so that stacks, training and evaluation can use it; returns it."""
    if isinstance(group, type):
        raise TypeError(f"register_group takes an instance: register_group({group.__name__}())")
    if not getattr(group, "name", None):
        raise DuetError(f"{type(group).__name__} has no name; set the class attribute `name`")
    if not re.fullmatch(r"[A-Za-z0-9_]+", group.name):
        raise DuetError(f"the name of a group has letters, digits and _ only; it is {group.name!r}")
    if group.name in GROUPS:
        raise DuetError(f"a group named {group.name!r} is registered already; give yours another name")
    if not 0 <= group.identity <= 1:
        raise DuetError(f"the identity of {group.name!r} must lie in [0, 1]; it is {group.identity}")
    if group.elements is not None and group.identity not in group.elements:
        raise DuetError(f"the identity of {group.name!r} must be one of its elements {group.elements}")
    GROUPS[group.name] = group
    return group


def find_group(group: str | Group) -> Group:
    """The group of that name; a Group is returned as it is."""
    if isinstance(group, Group):
        return group
    if group not in GROUPS:
        titles = {name: known.title for name, known in GROUPS.items()}
        raise DuetError(f"no group {group!r}{did_you_mean(group, titles)}; there are {', '.join(GROUPS)}")
    return GROUPS[group]
