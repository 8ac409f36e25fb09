"""A contact sheet of oriented images: before, after and how sure, the least sure first, on one page."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from PIL import Image

from ..application.orientation import Oriented
from ..application.rotation import turn
from ..application.sheet import Case, Sheet
from ..data.decoding import Unreadable, quiet, thumbnail
from ..data.pool import Pool
from ..error import printable
from ..file import write_text
from ..progress import track
from .drawing import data_uri
from .template import open_templates, read_part

SIDE = 160
"""Pixels of a thumbnail's longer side."""


class Pair(NamedTuple):
    """One image before and after, as addresses that hold them, its angle as it was read, counter-clockwise, and what
    there is to say."""

    name: str
    before: str
    after: str
    angle: str
    sure: str
    turned: bool


def write_sheet(sheet: Sheet, done: Oriented, out: Path, written: bool = True) -> Path:
    """Write the page, all of it or nothing; `written`: whether images were."""
    style = Markup(read_part("report.css") + read_part("sheet.css"))
    page = (
        open_templates()
        .get_template("sheet.html")
        .render(pairs=draw_pairs(sheet), done=done, words=done.words(done=written), style=style)
    )
    write_text(out, page)
    return out


def draw_pairs(sheet: Sheet, name: Callable[[Path], str] = printable) -> list[Pair]:
    """What the sheet holds as small pictures, under names of your choice; what cannot be read any more is left out."""
    cases = sheet.cases
    drawn = Pool().map(lambda case: _pair(case, name(case.path)), cases)
    with quiet():
        return [pair for pair in track(((1, pair) for pair in drawn), len(cases), "drawing") if pair]


def _pair(case: Case, name: str) -> Pair | None:
    try:
        small = thumbnail(case.before, SIDE)
    except Unreadable:  # it was there a moment ago
        return None
    sure = "not calibrated" if math.isnan(case.probability) else f"{case.probability:.0%} sure"
    return Pair(
        name,
        _address(small),
        _address(turn(small, -case.degrees)),
        f"{round(case.degrees, 1) + 0.0:+.1f}°".replace(".0°", "°").replace("-", "\N{MINUS SIGN}"),
        sure if case.known else "of an unknown kind",
        case.turned,
    )


def _address(image: Image.Image) -> str:
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=80)
    return data_uri("image/jpeg", encoded.getvalue())
