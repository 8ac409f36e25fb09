"""What an evaluation is: its question, what it measures, and all that is ever shown of it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from ..error import DuetError
from ..unit import in_unit
from .result import Result
from .wording import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .context import Context


PERCENT = "%"


class Inapplicable(DuetError):
    """This evaluation cannot be done on this subject or on these images; the message says why."""


class Claim(NamedTuple):
    """The one number by which an evaluation is judged, and what it must be better than."""

    key: str
    higher: bool  # is better: a share of at most 1; else an error of at least 0
    chance: float  # what an answer that ignores the images reaches
    rival: str = ""  # the scalar of rivals that stands beside it, if not the same: of one measure with it
    unit: str = ""  # of an error; PERCENT for one that is a share of what chance leaves
    what: str = ""  # is learned, such as "rotation"
    says: str = "{}"  # the number in words: "read to {}"
    asked: str = "the same with"  # how rivals are asked: "a linear probe of", and then their name
    blind: str = "chance"  # what chance is called here: "ignoring the image"


class Evaluation(ABC):
    """One question to an encoder, and everything that is shown of its answer.

    An evaluation of your own sets `name`, `title` and `question` and implements `measure`; register it with
    `register_evaluation`. All other parts have defaults.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str] = ""
    per_group: ClassVar[bool] = True
    """Whether a group takes part in it: then it is done for every group of the subject, else once."""
    on_request: ClassVar[bool] = False
    """Whether it is done only when it is named."""
    rivals: ClassVar[bool] = True
    """Whether pixels, an untrained network and k-means patches are measured beside the subject."""
    order: ClassVar[int] = 100
    """Where it stands among the others when they are done and shown, the lowest first."""
    shown: ClassVar[tuple[str, ...]] = ("*",)
    """The scalars that matter most, in order; * stands for anything."""
    words: ClassVar[Mapping[str, str]] = {}
    """Parts of the names of its scalars in plain words."""
    captions: ClassVar[Mapping[str, str]] = {}
    """What is to be seen in its figures, by name, for somebody who has not read the paper."""
    key_figure: ClassVar[str] = ""
    """The figure that stands at the top of a page, if any."""
    baselines: ClassVar[tuple[str, ...]] = ()
    """The scalars that others are seen beside, and not for themselves; * stands for anything."""
    readers: ClassVar[tuple[str, ...]] = ("constant", "chance")
    """What the name of a scalar may begin with to say who reads it, not what is measured."""

    @abstractmethod
    def measure(self, context: Context) -> Result:
        """The answer; what it was measured on is added to its provenance. Inapplicable where there is none."""

    def still_holds(self, kept: Result, context: Context) -> bool:
        """Whether a kept result is what would be measured now, if it depends on more than `Context.provenance` says."""
        return True

    def headlines(self, result: Result) -> list[str]:
        """The names of the scalars that matter most, in order."""
        found = [[key for key in result.scalars if fnmatchcase(key, pattern)] for pattern in self.shown]
        return list(dict.fromkeys(key for keys in found for key in keys))

    def summary(self, result: Result) -> dict[str, str]:
        """The few scalars that a table of several encoders shows, each in words."""
        return {key: self.label(key) for key in self.headlines(result)}

    def claim(self, result: Result) -> Claim | None:
        """By which number it is judged; None where nothing is claimed."""
        return None

    def chance(self, key: str, result: Result) -> float | None:
        """What a scalar would be for somebody who ignores the images; None where that has no meaning."""
        return None

    def measured(self, key: str) -> str:
        """What a scalar measures, whoever reads it. Only scalars of one measure are compared with each other."""
        found = next((reader for reader in self.readers if key.startswith(f"{reader}_")), None)
        return key if found is None else key.removeprefix(f"{found}_")

    def text(self, key: str, value: float) -> str:
        """A scalar as a table shows it."""
        return in_unit(value, "degrees") if "degrees" in key.split("_") else number(value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """Its pictures by name, drawn from the result alone; one that cannot be drawn is left out."""
        return {}

    def sentence(self, result: Result) -> str:
        """What the result says, for somebody who has not read the paper."""
        return ""

    def label(self, key: str) -> str:
        """A scalar's name in words: the parts that `words` knows, between commas."""
        phrases: list[list[str]] = [[]]
        rest = key
        while rest:
            known = [part for part in self.words if rest == part or rest.startswith((f"{part}_", f"{part}/"))]
            part = max(known, key=len) if known else re.split(r"[_/]", rest, maxsplit=1)[0]
            if known:
                phrases += [[self.words[part]], []]
            else:
                phrases[-1].append(part)
            rest = rest[len(part) :].lstrip("_/")
        return ", ".join(" ".join(phrase) for phrase in phrases if phrase)


EVALUATIONS: dict[str, Evaluation] = {}
"""Every registered evaluation, by name, in the order in which they are done and shown."""

E = TypeVar("E", bound="Evaluation | type[Evaluation]")


def register_evaluation(evaluation: E) -> E:
    """Make an evaluation known, an object or its class: the suite, the report and the demo then go through it."""
    made = evaluation() if isinstance(evaluation, type) else evaluation
    if not isinstance(made, Evaluation):
        raise TypeError("register_evaluation takes an Evaluation")
    name = getattr(made, "name", "")
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise DuetError(f"{type(made).__name__} needs a name of letters, digits and _; it is {name!r}")
    if name in EVALUATIONS:
        raise DuetError(f"an evaluation named {name!r} is registered already; give yours another name")
    if not getattr(made, "title", ""):
        type(made).title = name.replace("_", " ")
    known = sorted([*EVALUATIONS.values(), made], key=lambda one: one.order)  # stable: equals as they came
    EVALUATIONS.clear()
    EVALUATIONS.update({one.name: one for one in known})
    return evaluation


def evaluation_of(name: str) -> Evaluation | None:
    """The evaluation of a result's name, NAME or NAME-GROUP; None for a stranger's."""
    return EVALUATIONS.get(name.partition("-")[0])
