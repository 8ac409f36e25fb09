"""A score card: its rows, and as a table the few numbers by which encoders are compared, each with its interval."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..groups import find_group
from ..unit import in_unit, unit_name
from .sensitivity import Sensitivity
from .wording import number, percent


@dataclass(frozen=True)
class Row:
    """What one encoder, or one of its layers, reached under one group. Plain values all."""

    encoder: str
    group: str
    layer: str | None
    scalars: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    rival: bool = False
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which knows no NaN: what could not be measured is null."""
        return {
            **{"encoder": self.encoder, "group": self.group, "layer": self.layer},
            "scalars": {key: value if math.isfinite(value) else None for key, value in self.scalars.items()},
            "intervals": {key: list(ends) for key, ends in self.intervals.items() if all(map(math.isfinite, ends))},
            **{"rival": self.rival, "advice": self.advice, "facts": dict(self.facts)},
        }


@dataclass(frozen=True)
class FeatureShares:
    """How much of every feature's variance the group explains, for one row of a card."""

    encoder: str
    group: str
    layer: str | None
    names: Sequence[str]
    found: Sensitivity


@dataclass(frozen=True)
class Card:
    """Rows, the protocol that they were measured by, and the features' shares if they were asked for."""

    rows: list[Row]
    protocol: Mapping[str, Any]
    shares: list[FeatureShares] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"rows": [row.to_dict() for row in self.rows], "protocol": dict(self.protocol)}


class Column(NamedTuple):
    """A number of a card: its short and its long name, the scalar, its unit, and which end is good."""

    title: str
    meaning: str
    key: str
    unit: str  # "%" for shares
    higher: bool | None  # is better; None where neither is
    instead: str = ""  # the scalar of a layer, which has no other

    def key_of(self, row: Row) -> str:
        """The scalar that a row shows here."""
        return self.key if self.key in row.scalars else self.instead

    def write(self, value: float, bare: bool = False) -> str:
        """A value as people read it; bare: without its unit."""
        if self.unit == "%":
            return f"{100 * value:.1f}" if bare else percent(value)
        if self.unit == "dimensions":
            return f"{value:.1f}".replace("-", "\N{MINUS SIGN}")
        text = in_unit(value, self.unit) if self.unit else number(value)
        return text.removesuffix("°").removesuffix(f" {self.unit}") if bare else text


class Cell(NamedTuple):
    """A number of a row, and its interval in brackets."""

    text: str
    interval: str
    value: float


def columns(group: str) -> list[Column]:
    """What a table of one group shows."""
    unit = find_group(group).unit
    name = unit_name(unit)
    difference = "difference of two views of an image, without labels"
    return [
        Column("accuracy", "linear classifier on untouched images", "classification/logistic", "%", True),
        Column("neighbours", "nearest neighbours on untouched images", "robustness/knn_untouched", "%", True)._replace(
            instead="classification/knn"
        ),
        Column("transformed", "nearest neighbours of transformed images", "robustness/knn_transformed", "%", True),
        Column("difference", f"{difference}, median error", f"spectrum/median_difference_error_{name}", unit, False),
        Column("difference", f"{difference}, how often right", "spectrum/difference_accuracy", "%", True),
        Column("error", "left after the fitted action; doing nothing is 1", "equivariance/error_fitted", "", False),
        Column("Hit@1", "right copy found by the fitted action", "retrieval/hit1_fitted", "%", True),
        Column("moves", "sensitivity: a copy's distance over another image's", "equivariance/sensitivity", "", None),
        Column("ignore", "dimensions that ignore it", "spectrum/invariant_dimensions", "dimensions", None),
        Column("follow", "dimensions that follow it", "spectrum/equivariant_dimensions", "dimensions", None),
    ]


def cell(row: Row, column: Column) -> Cell | None:
    """The number of a row; None where it was not measured."""
    key = column.key_of(row)
    value = row.scalars.get(key, math.nan)
    if not math.isfinite(value):
        return None
    ends = row.intervals.get(key)
    interval = "" if ends is None else f"[{column.write(ends[0], True)}, {column.write(ends[1], True)}]"
    return Cell(column.write(value), interval, value)


def shown_columns(rows: Sequence[Row], group: str) -> list[Column]:
    """The columns in which some row has a number."""
    return [column for column in columns(group) if any(cell(row, column) is not None for row in rows)]


def write_table(card: Card) -> str:
    """The card as text: a table a group, and under it what to do with each encoder."""
    parts = []
    for group in dict.fromkeys(row.group for row in card.rows):
        rows = [row for row in card.rows if row.group == group]
        known = shown_columns(rows, group)
        lines = [["", *(column.title for column in known)]]
        for row in rows:
            found = [cell(row, column) for column in known]
            lines.append([row_title(row), *("-" if one is None else f"{one.text} {one.interval}" for one in found)])
        widths = [max(len(line[i].rstrip()) for line in lines) for i in range(len(lines[0]))]
        text = [f"{group}, on {card.protocol['data']}" if card.protocol.get("data") else group]
        for first, *others in lines:
            cells = [f"{value.rstrip():<{width}}" for value, width in zip(others, widths[1:], strict=True)]
            text.append("  ".join(["", f"{first:<{widths[0]}}", *cells]).rstrip())
        text += ["", *(f"  {row_title(row)}: {row.advice}" for row in rows if row.advice)]
        text += ["", *(f"  {column.title:<12}{column.meaning}" for column in known)]
        parts.append("\n".join(text).replace("\n\n\n", "\n\n"))
    return "\n\n".join(parts)


def row_title(row: Row) -> str:
    """Whose numbers they are."""
    name = row.encoder if row.layer is None else f"{row.encoder}, {row.layer}"
    return f"{name} (rival)" if row.rival else name


def shares_as_csv(card: Card) -> str:
    """A line a feature, the most sensitive first: encoder, group, layer, feature, share, variance."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["encoder", "group", "layer", "feature", "share", "variance"])
    for part in card.shares:
        for i in part.found.order().tolist():
            share, variance = float(part.found.share[i]), float(part.found.variance[i])
            writer.writerow(
                [part.encoder, part.group, part.layer or "", part.names[i], f"{share:.6g}", f"{variance:.6g}"]
            )
    return buffer.getvalue()
