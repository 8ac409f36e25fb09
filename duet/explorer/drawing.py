"""What was computed, as HTML: escaped text, small pictures in data URIs, nothing from outside."""

from __future__ import annotations

import base64
import io
from functools import lru_cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from ..groups import Group
from ..pixels import as_bytes
from ..representation import ACTIONS
from ..unit import in_unit
from .model import Explorer, Marginal, Move, Neighbour, Picture

T_G = Markup("<var>T<sub>g</sub></var>")
WAYS = {action.name: Markup(f"after {action.title}".replace("T_g", T_G)) for action in ACTIONS} | {"none": "not moved"}
WIDTH, HEIGHT = 480, 150  # of the chart, in its own units


def show_reading(explorer: Explorer, picture: Picture, name: str, reading: Marginal | None) -> str:
    """The picture beside P(g|x), with the recovered value and its spread, or with the reason why there is none."""
    group = explorer.group(name)
    bars, band, line = [], None, None
    if reading is not None:
        top = max(reading.masses)
        width = WIDTH / len(reading.masses)
        bars = [(k * width, mass / top * HEIGHT, width, mass) for k, mass in enumerate(reading.masses)]
        if explorer.relative or not reading.unknown:
            line = _place(group, reading.parameter)
            half = reading.spread / abs(group.span[1] - group.span[0]) * WIDTH
            band = group.domain.pieces(line - half, line + half, WIDTH)
    return _draw(
        "reading",
        image=as_png(picture.image[0]),
        label=explorer.labels[picture.place] if explorer.labels and picture.place is not None else "",
        dropped=picture.place is None,
        bars=bars,
        line=line,
        band=band,
        ticks=[(_place(group, v), in_unit(v, group.unit, 0)) for v in np.linspace(*group.span, 5).tolist()],
        value="" if line is None or reading is None else group.write(reading.parameter, 0),
        spread="" if reading is None else group.write(reading.spread, 0),
        why="" if reading is None else _reason(reading),
        relative=explorer.relative,
        group=group.name,
        size=(WIDTH, HEIGHT),
    )


def _reason(reading: Marginal) -> str:
    """Why a value is not told, or how probably it is right."""
    if reading.known is False:
        return "another kind of image than the model knows"
    if reading.unknown:
        return "the distribution is too flat to tell" if reading.probability is None else "not sure enough to tell"
    return "" if reading.probability is None else f"{100 * reading.probability:.0f}\N{NO-BREAK SPACE}% sure"


def show_move(explorer: Explorer, picture: Picture, name: str, parameter: float, found: Move) -> str:
    """The truly transformed image beside what the decoder makes of moved features, and how far these are off."""
    group = explorer.group(name)
    farthest = max(way.distance for way in found.ways.values()) or 1.0
    return _draw(
        "move",
        truth=as_png(found.truth),
        goal=group.write(parameter, 0),
        by=group.write(parameter - float(group.parameter(group.identity)), 0),
        start=group.write(found.start, 0),
        recovered=picture.place is None and found.start != float(group.parameter(group.identity)),
        relative=explorer.relative,
        columns=explorer.tracks(name),
        decoder=name in explorer.decoders,
        ways=[
            (key, WAYS[key], as_png(way.image) if way.image is not None else "", way, way.distance / farthest)
            for key in WAYS
            if (way := found.ways.get(key)) is not None
        ],
        group=group.name,
    )


def show_neighbours(explorer: Explorer, picture: Picture, turned: str, found: dict[str, list[Neighbour]]) -> str:
    """The nearest images, a row for each way to compare."""
    unit = explorer.group(turned).unit if turned else ""
    rows = {
        space: [
            (as_png(one.image), one.label, "" if one.parameter is None else in_unit(one.parameter, unit, 0), one.cosine)
            for one in near
        ]
        for space, near in found.items()
    }
    return _draw("neighbours", image=as_png(picture.image[0]), rows=rows, columns=bool(explorer.encoder.layout.axes))


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


def _place(group: Group, parameter: float) -> float:
    low, high = group.span
    return (parameter - low) / (high - low) * WIDTH


@lru_cache(maxsize=1)
def _macros() -> Any:
    loader = PackageLoader("duet", "templates")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return templates.get_template("explorer.html").module


def _draw(macro: str, **values: Any) -> str:
    return str(getattr(_macros(), macro)(**values))
