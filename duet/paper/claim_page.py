"""The page of claims, drawn from records of runs alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from ..error import DuetError, first_line
from .claim import Claim, Finding, Outcome, Plain, Verdict, judge

RULE = (
    "Written down before the runs. A comparison is paired over seeds: it holds where the mean difference exceeds twice "
    "its standard error, is reversed where it does so in the other direction, and is not separable else. With one "
    "seed the error follows from the 95 % intervals over the test images. A claim holds if every comparison "
    "holds, is reversed if one is, not separable if one is, and not tested as long as one has no runs."
)


def read_plain_records(folder: Path) -> list[Plain]:
    """Every record below a folder: JSON with `settings` and `scalars`; other JSON is not ours."""
    if not folder.is_dir():
        raise DuetError(f"{folder} is not a folder of records")
    found: list[Plain] = []
    for path in sorted(folder.rglob("*.json")):
        try:
            plain = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DuetError(f"cannot read the record {path}: {first_line(error)}") from None
        if (
            isinstance(plain, dict)
            and isinstance(plain.get("settings"), dict)
            and isinstance(plain.get("scalars"), dict)
        ):
            found.append(plain)
    if not found:
        raise DuetError(f"{folder} holds no records of runs; duet reproduce writes them")
    return found


def draw(claims: Iterable[Claim], records: Iterable[Plain]) -> str:
    """The page as Markdown: all claims with their verdicts, then every comparison of each."""
    known = list(records)
    judged = [(claim, judge(claim, known)) for claim in claims]
    lines = ["# The paper's claims", "", RULE, "", f"{len(known)} runs.", ""]
    lines += _table(
        ["claim", "the paper", "comparisons that hold", "verdict"],
        [[claim.text, claim.paper, _count(verdict), f"**{verdict.outcome.value}**"] for claim, verdict in judged],
    )
    for claim, verdict in judged:
        lines += ["", f"## {claim.text}", "", f"The paper: {claim.paper}. Verdict: **{verdict.outcome.value}**.", ""]
        if claim.proof:
            lines += [f"A matter of mathematics: property-tested in `{claim.proof}`.", ""]
        if verdict.findings:
            heads = ["comparison", "first", "second", "difference ± its error", "seeds", "outcome"]
            lines += [*_table(heads, [_row(finding, claim.percent) for finding in verdict.findings]), ""]
        lines += [f"`{claim.command}`"]
    return "\n".join(lines) + "\n"


def _row(finding: Finding, percent: bool) -> list[str]:
    if finding.outcome is Outcome.NOT_TESTED:
        return [finding.label, "–", "–", "–", "0", finding.outcome.value]
    first, second = ([pair[side] for pair in finding.pairs] for side in (0, 1))
    gap = fmean(first) - fmean(second)
    error = "unknown" if finding.error is None else _number(finding.error, percent)
    cells = [_spread(first, percent), _spread(second, percent), f"{_number(gap, percent, '+')} ± {error}"]
    return [finding.label, *cells, str(len(finding.seeds)), finding.outcome.value]


def _count(verdict: Verdict) -> str:
    if not verdict.findings:
        return "–"
    counts = {outcome: sum(f.outcome is outcome for f in verdict.findings) for outcome in Outcome}
    tested = len(verdict.findings) - counts[Outcome.NOT_TESTED]
    text = f"{counts[Outcome.HOLDS]} of {tested}" if tested else "–"
    text += f", {counts[Outcome.REVERSED]} reversed" if counts[Outcome.REVERSED] else ""
    return text + (f"; {counts[Outcome.NOT_TESTED]} without runs" if tested and counts[Outcome.NOT_TESTED] else "")


def _spread(values: Sequence[float], percent: bool) -> str:
    """The mean, and the standard deviation between seeds."""
    text = _number(fmean(values), percent)
    return text if len(values) < 2 else f"{text} ± {_number(stdev(values), percent)}"


def _number(value: float, percent: bool, sign: str = "") -> str:
    return f"{100 * value:{sign}.2f}" if percent else f"{value:{sign}.3g}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
