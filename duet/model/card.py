"""The model card: what a person wants to know before using a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encoder import Encoder

_FRONT = """---
library_name: duet
pipeline_tag: image-feature-extraction
tags:
- duet
- self-supervised-learning
- equivariance
---
"""


def model_card(encoder: Encoder, provenance: Mapping[str, Any]) -> str:
    """README.md of a model, from what it is and where it comes from: its figures are for whoever trained it to add."""
    layout, size = encoder.layout, encoder.image_size
    kept = ", ".join(f"`{group.name}` ({group.unit or 'no unit'})" for group in encoder.groups.values())
    kind = "grey" if encoder.channels == 1 else "colour"
    images = f"{size[1]}x{size[0]} {kind} images" if size else f"{kind} images of any one size"
    title = provenance.get("title")
    how = f" trained with {title}, without labels" if title else ""
    first = layout.axes[0].name if layout.axes else ""
    lines = [
        f"# {provenance.get('name', 'A duet model')}",
        "",
        f"An image encoder{how}. It takes {images} and gives {layout.dim} features.",
        "",
        *_reading(encoder, kept),
        "",
        "## Use",
        "```python",
        "import duet",
        "",
        'encoder = duet.load("THIS-MODEL")  # the Hub id or the folder of this card',
        'rep = encoder.embed(["photo.jpg"])',
        "rep.flat, rep.content",
        *([f'encoder.recover(rep, "{first}")  # the value, its spread and its unit'] if first else []),
        "```",
        *_recipe(encoder, provenance),
        "",
        "## Limits",
        f"{_seen(provenance, size)} {_doubt(encoder)}",
    ]
    if encoder.relative:
        lines += ["", "It was trained on differences between views: a recovered parameter has no common origin."]
    return _FRONT + "\n".join(lines) + "\n"


def _reading(encoder: Encoder, kept: str) -> list[str]:
    if not encoder.layout.axes:
        return [f"Its features have no table; they were trained under {kept or 'no group'}."]
    return [
        "The features are a table, rows of content by columns of group: `rep.content` tells what is in the image, "
        f"`rep.marginal()` how it is transformed. Tracked: {kept}."
    ]


def _recipe(encoder: Encoder, provenance: Mapping[str, Any]) -> list[str]:
    """What the trainer says of its recipe, and the shape of the features."""
    shape = encoder.layout.to_dict()
    axes = " + ".join(f"{axis.bins} columns of {axis.name}" for axis in encoder.layout.axes)
    layout = f"{shape['kind']}: {shape.get('content', encoder.layout.dim)} rows" + (f" by {axes}" if axes else "")
    body = type(encoder.backbone.body).__name__
    backbone = encoder.backbone.recipe["name"] if encoder.backbone.recipe else f"a module of its own ({body})"
    told = provenance.get("recipe")
    rows = {"layout": layout, "backbone": backbone, **(told if isinstance(told, Mapping) else {})}
    if encoder.turns > 1:
        rows["turns"] = f"looks at {encoder.turns} turned copies of an image; `duet.load(..., turns=1)` is faster"
    rows |= {key: provenance[key] for key in ("split", "calibration") if key in provenance}
    return ["", "## Recipe", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def _doubt(encoder: Encoder) -> str:
    if encoder.confidence is not None:
        return (
            "On other kinds of images its features may mean little. `encoder.recover(rep).sure` says which readings to "
            "trust, as images showed that it was not trained on; measure on images of your own first."
        )
    return (
        "On other kinds of images its features may mean little, and its estimates may be wrong while looking sure: "
        "measure on images of your own first."
    )


def _seen(provenance: Mapping[str, Any], size: tuple[int, int] | None) -> str:
    data = provenance.get("data")
    if not isinstance(data, Mapping) or "source" not in data:
        return "It does not say which images it was trained on."
    resized = f", resized to {size[1]}x{size[0]}" if size else ""
    return f"It was trained on the images of `{data['source']}`{resized} and on no others."
