"""The model card: what a person wants to know before using a model."""

from __future__ import annotations

from .experiment import Experiment, groups
from .representation import Layout

_FRONT = """---
library_name: duet
pipeline_tag: image-feature-extraction
tags:
- duet
- self-supervised-learning
- equivariance
---
"""


def model_card(experiment: Experiment, layout: Layout, image_size: tuple[int, int], channels: int) -> str:
    """README.md of a model, from its configuration alone: its figures are for whoever trained it to add."""
    height, width = image_size
    kept = ", ".join(f"`{group.name}` ({group.unit or 'no unit'})" for group in groups(experiment))
    kind = "grey" if channels == 1 else "colour"
    first, *_ = experiment.group
    lines = [
        f"# {experiment.name}",
        "",
        f"An image encoder trained with {_METHODS[experiment.method]}, without labels. "
        f"It takes {width}x{height} {kind} images and gives {layout.dim} features.",
        "",
        *_reading(experiment, layout, kept),
        "",
        "## Use",
        "```python",
        "import duet",
        "",
        'encoder = duet.load("THIS-MODEL")  # the Hub id or the folder of this card',
        'rep = encoder.embed(["photo.jpg"])',
        "rep.flat, rep.content",
        *([f'encoder.recover(rep, "{first}")  # the parameter and its spread'] if layout.axes else []),
        "```",
        "",
        "## Recipe",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _recipe(experiment, layout)),
        "",
        "## Limits",
        f"It has seen nothing but the images of `{experiment.data}`, resized to {width}x{height}. "
        "On other kinds of images its features may mean little, and its estimates may be wrong while looking sure: "
        "measure on images of your own first.",
        *_relative(experiment),
    ]
    return _FRONT + "\n".join(lines) + "\n"


_METHODS = {
    "duet": "DUET (2D structured and approximately equivariant representations, ICML 2023)",
    "simclr": "SimCLR",
    "essl": "ESSL",
}


def _reading(experiment: Experiment, layout: Layout, kept: str) -> list[str]:
    if not layout.axes:
        return [f"Its features have no table; they were trained under {kept}."]
    return [
        "The features are a table, rows of content by columns of group: `rep.content` tells what is in the image, "
        f"`rep.marginal()` how it is transformed. Kept in view: {kept}."
    ]


def _recipe(experiment: Experiment, layout: Layout) -> list[tuple[str, object]]:
    shape = layout.to_dict()
    axes = " + ".join(f"{axis.bins} columns of {axis.name}" for axis in layout.axes)
    rows: list[tuple[str, object]] = [
        ("data", experiment.data),
        ("method", experiment.method),
        ("weight of the group loss", f"{experiment.group_weight:g}" if experiment.method != "simclr" else "none"),
        ("layout", f"{shape['kind']}: {shape.get('content', layout.dim)} rows" + (f" by {axes}" if axes else "")),
        ("views", f"{experiment.stack}, crops of area {experiment.area[0]:g} to {experiment.area[1]:g}"),
        ("backbone", experiment.encoder),
        ("epochs", experiment.epochs),
        ("batch size", experiment.batch_size),
        ("optimiser", f"{experiment.optimizer}, lr {experiment.lr:g}, weight decay {experiment.weight_decay:g}"),
        ("seed", experiment.seed),
    ]
    if experiment.method == "duet":
        rows.insert(3, ("reference", experiment.reference))
    return rows


def _relative(experiment: Experiment) -> list[str]:
    if experiment.method != "duet" or experiment.reference != "relative":
        return []
    return ["", "It knows differences between views only: a recovered parameter has no common origin."]
