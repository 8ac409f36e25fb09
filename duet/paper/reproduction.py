"""What of the paper can be computed again by one command each: every result registers itself in its own file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from ..discovery import import_files
from ..error import DuetError, did_you_mean

SCALES = {"cpu": "cifar-cpu", "cifar": "cifar", "paper": "paper"}
"""How large a result may be computed, and the preset of its runs with a crop and one transformation."""


@dataclass(frozen=True)
class Request:
    """How a result is to be computed: where to, how large, over how many seeds, which of its runs."""

    out: Path
    scale: str = "cpu"
    seeds: int | None = None  # None: as many as the result usually has
    only: tuple[str, ...] = ()
    device: str = "auto"
    dry: bool = False
    jobs: int = 1
    draw_only: bool = False  # from what is finished; nothing is computed

    @property
    def preset(self) -> str:
        """The preset of its runs with a crop and one transformation."""
        return SCALES[self.scale]

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise DuetError(f"--scale is one of {', '.join(SCALES)}, not {self.scale!r}")
        if (self.seeds is not None and self.seeds < 1) or self.jobs < 1:
            raise DuetError(f"--seeds and --jobs start at 1; they are {self.seeds} and {self.jobs}")


class Reproduction(ABC):
    """A table, figure or claim of the paper: its experiments, what it reads from them, and how it is drawn."""

    name: ClassVar[str]
    summary: ClassVar[str]
    usual_seeds: ClassVar[int] = 3
    apart: ClassVar[bool] = False
    """Whether it has a folder of its own; the others of a scale share one, so that no run is trained twice."""

    def seeds(self, request: Request) -> int:
        """How many are asked for."""
        return self.usual_seeds if request.seeds is None else request.seeds

    @abstractmethod
    def run(self, request: Request) -> None:
        """Compute what is not there yet and draw what is; a run that fails is raised as Unfinished at the end."""


REPRODUCTIONS: dict[str, type[Reproduction]] = {}
"""Every registered reproduction, by name."""


def register(reproduction: type[Reproduction]) -> type[Reproduction]:
    """Make a reproduction known by its name; decorates its class."""
    if reproduction.name in REPRODUCTIONS:
        raise DuetError(f"a reproduction named {reproduction.name!r} is registered already; give yours another name")
    REPRODUCTIONS[reproduction.name] = reproduction
    return reproduction


def known_reproductions() -> dict[str, type[Reproduction]]:
    """All of them, by name; the paper's own files are read first."""
    import_files(__package__, import_module(__package__).__path__)
    return dict(sorted(REPRODUCTIONS.items()))


def find_reproduction(name: str) -> Reproduction:
    """The reproduction of that name."""
    known = known_reproductions()
    if name not in known:
        words = {key: entry.summary for key, entry in known.items()}
        raise DuetError(f"no reproduction {name!r}{did_you_mean(name, words)}; there are {', '.join(known)}")
    return known[name]()
