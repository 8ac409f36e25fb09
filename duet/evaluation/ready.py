"""A context whose features are there already: those of a layer, or of a file. Nothing is computed from images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..groups import Group
from ..model import OrbitViews, has_spectrum, spectrum_of
from ..representation import Action
from .context import Context, Labelled, Orbit
from .evaluation import Inapplicable


@dataclass(frozen=True)
class ReadyContext(Context):
    """Features to fit on, features to test on, and those of labelled images where there are labels."""

    fitting: OrbitViews | None = None
    testing: Orbit | None = None
    labelled: tuple[Labelled, Labelled] | None = None

    @property
    def train_features(self) -> Labelled:
        """Features of the labelled training images."""
        return self._both()[0]

    @property
    def test_features(self) -> Labelled:
        """Features of the labelled test images."""
        return self._both()[1]

    @property
    def actions(self) -> dict[str, Action]:
        """The spectral action alone: features of a layer can be many, and it is the one that asks for no more."""
        if not has_spectrum(self.group):
            return {}
        found = self._once(("spectral", repr(self.group)), lambda: spectrum_of(self.views(), self.group))
        return {found.name: found}

    @property
    def foreign_actions(self) -> list[Any]:
        """None: the classes are not looked at."""
        return []

    def views(self, group: Group | None = None, least: int = 1) -> OrbitViews:
        """The features to fit on."""
        assert self.fitting is not None
        return self.fitting

    def orbit(self, group: Group | None = None, images: int | None = None) -> Orbit:
        """The features to test on."""
        assert self.testing is not None
        return self.testing

    def _both(self) -> tuple[Labelled, Labelled]:
        if self.labelled is None:
            raise Inapplicable("there are no labels")
        return self.labelled
