"""The page: what was gathered, put into words and pictures, and written as one file that needs no network."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from ..evaluation.evaluation import evaluation_of
from ..file import write_text
from ..methods import METHODS
from .drawing import Picture, as_picture, colour, data_uri, draw_curves, draw_result
from .gathering import Run, read_runs, shown
from .judgement import open_with, verdict_of
from .own_images import AT_ONCE, OwnImages, show_images
from .table import Table, numbers, overview, settings
from .template import open_templates, read_part
from .wording import method_title, noun, rank, read_out, title

LARGEST_DOWNLOAD = 300_000
"""Bytes of a run's losses that the page still carries."""


class Download(NamedTuple):
    """A file that the page carries."""

    name: str
    text: str
    uri: str


class Answer(NamedTuple):
    """What one run's result says, and which of its figures are left out."""

    place: int
    sentence: str
    notes: list[str]


class Section(NamedTuple):
    """One evaluation: a question, every run's answer, the pictures by kind and run, and the numbers."""

    anchor: str
    heading: str
    question: str
    level: str
    answers: list[Answer]
    pictures: list[list[tuple[int, Picture]]]
    main: Table
    rest: Table


def write_report(
    runs: Sequence[Path], out: Path, images: Sequence[str | os.PathLike[str]] = (), device: str = "auto"
) -> Path:
    """Write one self-contained HTML page about one run or several side by side; all of it or nothing.

    `images`: files or folders of your own, shown as the runs' models would turn them upright.
    """
    folders = [Path(run) for run in runs]
    page = render(read_runs(folders), show_images(images, folders, device))
    write_text(Path(out), page)
    return Path(out)


def render(runs: Sequence[Run], own: Sequence[OwnImages] = ()) -> str:
    """The HTML of the page. Whatever comes from files is escaped, and a policy keeps out scripts but the page's own."""
    templates = open_templates()
    script, style = read_part("report.js"), read_part("report.css") + read_part("sheet.css")
    templates.filters["maths"] = maths
    curves = draw_curves(runs)
    alt = f"The losses of {', '.join(run.name for run in runs)} over the epochs of training."
    sections, key = _take_key_figure(list(_sections(runs)))
    return templates.get_template("report.html").render(
        heading=_heading(runs),
        lead=_lead(runs),
        runs=[(run.name, describe(run), colour(i)) for i, run in enumerate(runs)],
        names=[(run.name, "") for run in runs],
        lines=open_with(runs),
        overview=overview(runs),
        key=key,
        differing=[row for row in settings(runs) if row.marked],
        settings=settings(runs),
        curves=None if curves is None else as_picture(curves, "curves", alt, "As logged, not smoothed."),
        sections=sections,
        own=own,
        at_once=AT_ONCE,
        splits=[(run.name, run.split) for run in runs if run.split],
        notes=[(run.name, run.notes) for run in runs if run.notes],
        downloads=downloads(runs),
        script=Markup(script),
        style=Markup(style),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def maths(text: str) -> Markup:
    """Escaped text with T_g as it is written by hand, and options of a command that no line breaks."""
    marked = str(escape(text)).replace("T_g", "<var>T<sub>g</sub></var>")
    return Markup(re.sub(r"--[a-z][a-z-]*", r"<code>\g<0></code>", marked))


def describe(run: Run) -> str:
    """What was trained on what, in half a sentence."""
    config = run.config
    method = shown(config.get("method", "an encoder"))
    words = method_title(method)
    if config.get("weight") == 0:
        words += " with weight 0"
    if "data" in config:
        words += f" on {shown(config['data'])}"
    groups = config.get("group")
    if isinstance(groups, list) and groups:
        how = "tracking" if run.layout.get("axes") or not run.layout else "measured under"
        words += f", {how} {' and '.join(noun(shown(g)) for g in groups[:8])}"
    return words


def downloads(runs: Sequence[Run]) -> list[Download]:
    """The numbers of all runs as JSON and as CSV, and every run's losses if they are not too many."""
    plain = {
        run.name: {
            "config": {shown(key): shown(value) for key, value in run.config.items()},
            "results": {name: {k: _plain(v) for k, v in found.scalars.items()} for name, found in run.results.items()},
        }
        for run in runs
    }
    rows = [
        (run.name, name, key, _plain(value))
        for run in runs
        for name, found in run.results.items()
        for key, value in found.scalars.items()
    ]
    packed = [
        _download(
            "results.json", "all numbers, JSON", json.dumps(plain, indent=1, allow_nan=False), "application/json"
        ),
        _download(
            "results.csv", "all numbers, CSV", as_csv(("run", "evaluation", "scalar", "value"), rows), "text/csv"
        ),
    ]
    for run in runs:
        if run.metrics:
            losses = as_csv(list(run.metrics), zip(*(column.tolist() for column in run.metrics.values()), strict=True))
            if len(losses) <= LARGEST_DOWNLOAD:
                packed.append(
                    _download(f"losses-{len(packed) - 1}.csv", f"losses of {run.name}, CSV", losses, "text/csv")
                )
    return packed


def as_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; text that a spreadsheet would run as a formula is quoted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow([f"'{v}" if isinstance(v, str) and v[:1] in ("=", "+", "-", "@", "\t") else v for v in row])
    return buffer.getvalue()


def _heading(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return describe(runs[0])
    shared = {shown(run.config.get("data", "")) for run in runs}
    where = f" on {shared.pop()}" if len(shared) == 1 and "" not in shared else ""
    methods = dict.fromkeys(shown(run.config.get("method", "")) for run in runs)
    named = len(methods) == len(runs) <= 3 and all(method in METHODS for method in methods)
    who = " and ".join(map(method_title, methods)) if named else f"{len(runs)} runs"
    return f"{who}{where}, side by side"


def _lead(runs: Sequence[Run]) -> str:
    """How it was trained, in one line; of several runs what they share."""
    facts = {"network": {_network(run) for run in runs}}
    facts["epochs"] = {shown(run.config["epochs"]) if "epochs" in run.config else "" for run in runs}
    shared = {key: next(iter(values)) for key, values in facts.items() if len(values) == 1 and "" not in values}
    words = [shared["network"]] if "network" in shared else []
    if "epochs" in shared:
        words.append(f"{shared['epochs']} {'epoch' if shared['epochs'] == '1' else 'epochs'}")
    tables = {_table(run) for run in runs}
    if len(tables) == 1 and "" not in tables:
        words.append(tables.pop())
    return ", ".join(words)


def _network(run: Run) -> str:
    """What was trained, from scratch or on a pretrained trunk."""
    if run.config.get("trunk"):
        return f"a neck on the trunk {shown(run.config['trunk'])}"
    return f"{shown(run.config['encoder'])} encoder" if "encoder" in run.config else ""


def _table(run: Run) -> str:
    """The shape of the features."""
    layout = run.layout
    try:
        bins = [str(int(axis["bins"])) for axis in layout.get("axes", [])]
        if not bins:
            return f"{int(layout['dim'])} features"
        sign = " + " if layout.get("kind") == "concatenated" else " × "
        return f"features {int(layout['content'])} × {f'({sign.join(bins)})' if len(bins) > 1 else bins[0]}"
    except (KeyError, TypeError, ValueError):
        return ""


def _sections(runs: Sequence[Run]) -> Iterable[Section]:
    for name in sorted({name for run in runs for name in run.results}, key=rank):
        having = [(place, run) for place, run in enumerate(runs) if name in run.results]
        answers: list[Answer] = []
        kinds: dict[str, list[tuple[int, Picture]]] = {}
        for place, run in having:
            drawn = list(draw_result(name, run.results[name], run))
            for item in drawn:
                if isinstance(item, Picture):
                    kinds.setdefault(item.kind, []).append((place, item))
            left_out = [item for item in drawn if isinstance(item, str)]
            answers.append(Answer(place, read_out(name, run.results[name]), left_out))
        heading, question = title(name, runs)
        verdict = verdict_of(runs[0].results[name]) if len(runs) == 1 else None
        level = "" if verdict is None else verdict.level.name.lower()
        yield Section(name, heading, question, level, answers, list(kinds.values()), *numbers(runs, name))


def _take_key_figure(sections: Sequence[Section]) -> tuple[list[Section], tuple[int, Picture] | None]:
    """The picture that opens the page, with the place of its run, and the sections without it.

    Of several evaluations with a key figure the last one gives it: decoded images say more than readings. Of several
    runs the first one that has it.
    """
    for place, section in reversed(list(enumerate(sections))):
        evaluation = evaluation_of(section.anchor)
        for kind in section.pictures:
            if evaluation is not None and kind[0][1].kind == evaluation.key_figure:
                rest = [[*kind[1:]] if other is kind else other for other in section.pictures]
                left = section._replace(pictures=[other for other in rest if other])
                return [*sections[:place], left, *sections[place + 1 :]], kind[0]
    return list(sections), None


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _download(name: str, text: str, content: str, kind: str) -> Download:
    return Download(name, text, data_uri(kind, content.encode()))
