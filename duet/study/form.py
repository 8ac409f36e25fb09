"""A table as text: CSV for programs, Markdown and LaTeX for people."""

from __future__ import annotations

import csv
import io

from .table import Cell, Table

NOTHING = "-"


def as_csv(table: Table) -> str:
    """A line for every cell: row, column, mean, std, seeds, best."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["row", "column", "mean", "std", "seeds", "best"])
    for row, cells in table.lines():
        for column, cell in zip(table.columns, cells, strict=True):
            if cell is not None:
                spread = "" if cell.std is None else repr(cell.std)
                writer.writerow([row, column, repr(cell.mean), spread, cell.seeds, int(cell.best)])
    return buffer.getvalue()


def as_markdown(table: Table) -> str:
    """A pipe table with mean ± standard deviation, and the number of seeds where it is not that of all."""
    lines = [f"| {table.row_key} | " + " | ".join(table.columns) + " |", "|---" + "|---:" * len(table.columns) + "|"]
    most = _usual_seeds(table)
    for row, cells in table.lines():
        lines.append("| " + " | ".join([row.replace("|", "\\|"), *(_markdown(cell, most) for cell in cells)]) + " |")
    return "\n".join([*lines, "", _caption(table, most)]) + "\n"


def as_latex(table: Table) -> str:
    """A tabular environment with booktabs' rules; deviations as subscripts, as in the paper."""
    most = _usual_seeds(table)
    lines = [
        f"% {_caption(table, most)}",
        f"\\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        "\\toprule",
    ]
    lines.append(" & ".join([_escaped(name) for name in (table.row_key, *table.columns)]) + " \\\\")
    lines.append("\\midrule")
    for row, cells in table.lines():
        lines.append(" & ".join([_escaped(row), *(_latex(cell, most) for cell in cells)]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _usual_seeds(table: Table) -> int:
    return max((cell.seeds for cell in table.cells.values()), default=0)


def _caption(table: Table, most: int) -> str:
    seeds = f"mean and standard deviation over {most} seeds" if most > 1 else "one seed"
    fewer = "; (n): so many seeds only" if any(cell.seeds != most for cell in table.cells.values()) else ""
    bold = (
        "; bold: the best of a column, where its distance to the second exceeds the 95 % interval" if most > 1 else ""
    )
    return f"{table.value}: {seeds}{fewer}{bold}."


def _markdown(cell: Cell | None, most: int) -> str:
    if cell is None:
        return NOTHING
    text = number(cell.mean) + ("" if cell.std is None else f" ± {number(cell.std, cell.mean)}")
    return (f"**{text}**" if cell.best else text) + (f" ({cell.seeds})" if cell.seeds != most else "")


def _latex(cell: Cell | None, most: int) -> str:
    if cell is None:
        return NOTHING
    mean = f"\\textbf{{{number(cell.mean)}}}" if cell.best else number(cell.mean)
    spread = "" if cell.std is None else f"\\textsubscript{{{number(cell.std, cell.mean)}}}"
    return mean + spread + (f" ({cell.seeds})" if cell.seeds != most else "")


def number(value: float, beside: float | None = None) -> str:
    """A number for people: two decimals above ten, else three, or as many as the one `beside` which it stands."""
    size = abs(value if beside is None else beside)
    if size != 0 and not 0.001 <= size < 1e5:
        return f"{value:.2e}"
    return f"{value:.2f}" if size >= 10 else f"{value:.3f}"


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else {"\\": "/", "~": "-", "^": "-"}.get(c, c) for c in text)
