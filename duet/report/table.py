"""The tables of the page: every number with its interval, and beside it what rivals and chance reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ..evaluation import Result
from ..evaluation.evaluation import evaluation_of
from ..evaluation.suite import headlines
from ..evaluation.verdict import Level, Verdict, written
from ..training.experiment import Experiment
from .gathering import Run, shown
from .judgement import verdict_of
from .wording import label, rank, title, write

NONE = "–"
MOST = 8
"""Numbers of an evaluation that are not folded away."""


class Cell(NamedTuple):
    """A cell: its text, what it is sorted by, a remark below it, and how far something was learned."""

    text: str
    sort: str | float = ""
    strong: bool = False
    note: str = ""
    level: str = ""


class Row(NamedTuple):
    """A row of a table: its head, an explanation of it, and its cells; `apart` where it is no run's."""

    head: str
    cells: list[Cell]
    help: str = ""
    marked: bool = False
    apart: bool = False


class Table(NamedTuple):
    """The heads of its columns but the first, each with an explanation, and its rows."""

    heads: list[tuple[str, str]]
    rows: list[Row]


class Entry(NamedTuple):
    """A number for the overview: what it is, and the cells of the runs, of rivals and of chance."""

    head: str
    help: str
    runs: list[Cell]
    rivals: dict[str, Cell]
    chance: Cell
    higher: bool  # is better


def overview(runs: Sequence[Run]) -> Table:
    """The number by which each evaluation is judged: of one run a row each, of several runs a column each."""
    names = sorted({name for run in runs for name in run.results}, key=rank)
    entries = [entry for name in names for entry in _judged(runs, name)]
    rivals = list(dict.fromkeys(rival for entry in entries for rival in entry.rivals))
    if not entries:
        return Table([], [])
    if len(runs) > 1:
        return _beside_each_other(runs, entries, rivals)
    rows = []
    for entry in entries:
        own = entry.runs[0]
        word = Cell(Level[own.level.upper()].value, own.level, level=own.level) if own.level else Cell(NONE)
        beside = [entry.rivals.get(rival, Cell(NONE)) for rival in rivals]
        rows.append(Row(entry.head, [word, own._replace(level=""), *beside, entry.chance], entry.help))
    return Table([(head, "") for head in ("Verdict", "This run", *map(_named, rivals), "Chance")], rows)


def numbers(runs: Sequence[Run], name: str) -> tuple[Table, Table]:
    """The numbers of an evaluation that matter most, and the others."""
    results = [run.results.get(name) for run in runs]
    known = [result for result in results if result is not None]
    rivals = list(dict.fromkeys(rival for result in known for rival in result.rivals))
    apart = len(runs) == 1 and any(result.intervals for result in known)  # a column of its own for intervals
    main = dict.fromkeys(key for result in known for key in (*result.missing, *headlines(name, result)))
    keys = dict.fromkeys([*main, *(key for result in known for key in result.scalars)])
    chances = {key: _joined([_chance(name, key, result) for result in known]) for key in keys}
    compared = any(cell.text != NONE for cell in chances.values())
    rows = {}
    for key in keys:
        cells = [_value(name, key, result) for result in results]
        if apart:
            cells = [cells[0]._replace(note=""), Cell(cells[0].note or NONE)]
        cells += [_joined([_rival(name, key, result, rival) for result in known]) for rival in rivals]
        rows[key] = Row(label(name, key), [*cells, chances[key]] if compared else cells, key)
    heads = [run.name for run in runs] if len(runs) > 1 else ["Value", "95 % interval"][: 1 + apart]
    heads += [*map(_named, rivals), *["Chance"][:compared]]
    evaluation = evaluation_of(name)
    hidden = () if evaluation is None else evaluation.baselines
    first = [key for key in main if not any(fnmatchcase(key, pattern) for pattern in hidden)][:MOST]
    columns = [(head, "") for head in heads]
    rest = [row for key, row in rows.items() if key not in first]
    return Table(columns, [rows[key] for key in first]), Table(columns, rest)


def settings(runs: Sequence[Run]) -> list[Row]:
    """Every setting, a column a run; marked where runs differ."""
    known = Experiment.__dataclass_fields__
    keys = dict.fromkeys(
        [*(k for k in known if any(k in r.config for r in runs)), *(k for r in runs for k in r.config)]
    )
    rows = []
    for key in keys:
        texts = [shown(run.config[key]) if key in run.config else NONE for run in runs]
        meaning = str(known[key].metadata.get("help", "")) if key in known else ""
        rows.append(Row(shown(key), [Cell(text, text) for text in texts], meaning, len(set(texts)) > 1))
    return rows


def _judged(runs: Sequence[Run], name: str) -> list[Entry]:
    """The number of an evaluation's claim; none where no run has one."""
    results = [run.results.get(name) for run in runs]
    verdicts = [None if result is None else verdict_of(result) for result in results]
    known = [(r, v) for r, v in zip(results, verdicts, strict=True) if r is not None and v is not None]
    if not known:
        return []
    claim = known[0][1].claim
    rivals = {
        rival: _joined([_beside(result, verdict, rival) for result, verdict in known], claim.higher)
        for rival in dict.fromkeys(rival for _, verdict in known for rival in verdict.rivals)
    }
    chance = _joined([Cell(written(v.claim.chance, v.claim), v.claim.chance) for _, v in known])
    own = [
        Cell(NONE) if result is None or verdict is None else _own(result, verdict)
        for result, verdict in zip(results, verdicts, strict=True)
    ]
    better = "higher is better" if claim.higher else "lower is better"
    return [Entry(title(name, runs)[0], f"{label(name, claim.key)}; {better}", own, rivals, chance, claim.higher)]


def _beside_each_other(runs: Sequence[Run], entries: Sequence[Entry], rivals: Sequence[str]) -> Table:
    """A row a run, then rivals and chance; the best of every column in bold, whoever it is."""
    rows = [Row(run.name, [entry.runs[i] for entry in entries]) for i, run in enumerate(runs)]
    rows += [
        Row(_named(rival), [entry.rivals.get(rival, Cell(NONE))._replace(note="") for entry in entries], apart=True)
        for rival in rivals
    ]
    for column, entry in enumerate(entries):
        known = [row.cells[column].sort for row in rows if isinstance(row.cells[column].sort, float)]
        if len(known) > 1:
            best = (max if entry.higher else min)(known)
            for row in rows:
                row.cells[column] = row.cells[column]._replace(strong=row.cells[column].sort == best)
    rows.append(Row("Chance", [entry.chance for entry in entries], apart=True))
    return Table([(entry.head, entry.help) for entry in entries], rows)


def _own(result: Result, verdict: Verdict) -> Cell:
    value, _, interval = verdict.value.partition(" [")
    note = f"[{interval}" if interval else ""
    return Cell(value, float(result.scalars[verdict.claim.key]), note=note, level=verdict.level.name.lower())


def _beside(result: Result, verdict: Verdict, rival: str) -> Cell:
    if rival not in verdict.rivals:
        return Cell(NONE)
    text, standing = verdict.rivals[rival]
    value = result.rivals[rival].scalars[verdict.claim.rival or verdict.claim.key]
    return Cell(text, float(value), note=standing.value)


def _value(name: str, key: str, result: Result | None) -> Cell:
    value = math.nan if result is None else result.scalars.get(key, math.nan)
    ends = None if result is None else result.intervals.get(key)
    texts = () if ends is None else dict.fromkeys(write(name, key, end) for end in ends)
    note = " to ".join(texts) if len(texts) > 1 else ""
    return Cell(write(name, key, value), float(value), note=note) if math.isfinite(value) else Cell(NONE)


def _rival(name: str, key: str, result: Result, rival: str) -> Cell:
    value = result.rivals[rival].scalars.get(key, math.nan) if rival in result.rivals else math.nan
    return Cell(write(name, key, value), float(value)) if math.isfinite(value) else Cell(NONE)


def _chance(name: str, key: str, result: Result) -> Cell:
    evaluation = evaluation_of(name)
    try:
        value = None if evaluation is None else evaluation.chance(key, result)
        return Cell(NONE) if value is None or not math.isfinite(value) else Cell(write(name, key, value), float(value))
    except Exception:  # a stranger's numbers can fail anywhere
        return Cell(NONE)


def _joined(cells: Sequence[Cell], higher: bool = True) -> Cell:
    """One cell for what several runs were measured beside: all that differ, one after another; the best sorts it."""
    different = list(dict.fromkeys(cell.text for cell in cells if cell.text != NONE))
    if not different:
        return Cell(NONE)
    first = next(cell for cell in cells if cell.text == different[0])
    if len(different) == 1:
        return first
    values = [cell.sort for cell in cells if isinstance(cell.sort, float)]
    return Cell(" / ".join(different), (max if higher else min)(values))


def _named(rival: str) -> str:
    return rival[:1].upper() + rival[1:]
