"""What was computed, as HTML: escaped text, small pictures in data URIs, nothing from outside."""

from __future__ import annotations

import base64
import io
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from ..groups import Group
from ..pixels import as_bytes
from ..representation import ACTIONS
from ..unit import in_unit
from .chart import draw_chart
from .model import UNMOVED, Marginal, Move
from .neighbour import Neighbour
from .opening import Explorer
from .picture import Picture


class Way(NamedTuple):
    """How a way to move features is shown: its colour's number, what it is called, and what it does."""

    tint: int
    title: str
    meaning: str


T_G = Markup("<var>T<sub>g</sub></var>")
WAYS = {
    action.name: Way(number, Markup(action.title.replace("T_g", T_G)), action.meaning)
    for number, action in enumerate(ACTIONS, start=1)
} | {UNMOVED: Way(0, "not moved", "the features as they are")}


def show_head(explorer: Explorer) -> str:
    """The title: which run, on which data."""
    return _draw("head", title=explorer.title, method=str(explorer.encoder.provenance.get("title") or ""))


def show_reading(explorer: Explorer, picture: Picture, name: str, reading: Marginal | None) -> str:
    """The picture beside P(g|x), with the value and its spread, or that it is unknown."""
    group = explorer.group(name)
    chart, value = None, ""
    spread: tuple[str, ...] = ()
    if reading is not None:
        chart = draw_chart(reading, explorer.encoder.layout.find(name), group)
        value = "" if reading.parameter is None else group.write(reading.parameter, 0)
        spread = tuple(_short(group, width) for width in reading.spread or ())
    return _draw(
        "reading",
        image=as_png(picture.image[0]),
        label=explorer.labels[picture.place] if explorer.labels and picture.place is not None else "",
        dropped=picture.place is None,
        word=explorer.called(name),
        value=value,
        spread=spread,
        trust="" if reading is None else reading.trust,
        unit=f" ({group.unit})" if group.unit else "",
        relative=explorer.relative,
        chart=chart,
    )


def show_move(explorer: Explorer, picture: Picture, name: str, parameter: float, found: Move) -> str:
    """The truly transformed image beside what the decoder makes of moved features, and how far these are off."""
    group = explorer.group(name)
    own = float(group.parameter(group.identity))
    farthest = max(way.distance for way in found.ways.values()) or 1.0
    return _draw(
        "move",
        truth=as_png(found.truth),
        dropped=picture.place is None,
        goal=group.write(parameter, 0),
        by=group.write(parameter - own, 0),
        start=group.write(found.start, 0),
        recovered=picture.place is None and found.start != own,
        unknown=found.unknown,
        relative=explorer.relative,
        columns=explorer.tracks(name),
        decoder=name in explorer.decoders,
        redrawn=found.redrawn,
        data=explorer.data,
        ways=[
            (key, *shown, as_png(way.image) if way.image is not None else "", way, way.distance / farthest)
            for key, shown in WAYS.items()
            if (way := found.ways.get(key)) is not None
        ],
        word=explorer.called(name),
    )


def show_neighbours(explorer: Explorer, picture: Picture, name: str, found: dict[str, list[Neighbour]]) -> str:
    """The nearest images, a row for each way to compare; `name` is the group that they may be under."""
    group = explorer.group(name)
    rows = {
        space: [
            (as_png(one.image), one.label, "" if one.parameter is None else _short(group, one.parameter), one.cosine)
            for one in near
        ]
        for space, near in found.items()
    }
    columns, word = bool(explorer.encoder.layout.axes), explorer.called(name)
    return _draw("neighbours", image=as_png(picture.image[0]), rows=rows, columns=columns, word=word)


def show_empty(text: str) -> str:
    """A sentence in the place of what is not there."""
    return _draw("empty", text=text)


def show_notice(text: str) -> str:
    """A sentence that asks for attention; nothing for none."""
    return _draw("notice", text=text) if text else ""


def as_png(image: Tensor) -> str:
    """(C,H,W) in [0,1] as a data URI."""
    buffer = io.BytesIO()
    as_pillow(image).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def as_pillow(image: Tensor) -> Image.Image:
    """(C,H,W), uint8 or in [0,1], as a Pillow image."""
    array = as_bytes(image).permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def _short(group: Group, value: float) -> str:
    return in_unit(value, group.unit, 0, short=True)


@lru_cache(maxsize=1)
def _macros() -> Any:
    loader = PackageLoader("duet", "templates")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return templates.get_template("explorer.html").module


def _draw(macro: str, **values: Any) -> str:
    return str(getattr(_macros(), macro)(**values))
