"""A trained model as one graph that runs without duet: ONNX, or torch's own export."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..error import DuetError, first_line
from ..file import whole_file
from ..installation import install_command
from ..representation import Prescribed, Representation, Spectrum, act
from ..representation.tabulated import tabulated
from .confidence import SURE, Confidence
from .encoder import Encoder

TOLERANCE = 1e-4
BATCHES = (1, 2, 7, 32)
Run = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]


class Graph(nn.Module):
    """images (B, C, H, W), g (B,) -> every output of `names`; the same functions as in Python, on tabulated targets."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.layout = tabulated(encoder.layout)
        self.spectral = spectral_action(encoder)

    def forward(self, images: Tensor, g: Tensor | None = None) -> tuple[Tensor, ...]:
        """The outputs, in the order of `output_names`."""
        rep = Representation(self.encoder(images), self.layout, relative=self.encoder.relative)
        return outputs(rep, g, self.encoder.confidence, self.spectral)


def spectral_action(encoder: Encoder) -> Spectrum | None:
    """The spectral action of the first axis, if the model has one."""
    if not encoder.layout.axes:
        return None
    found = encoder.actions.get(encoder.layout.axes[0].name, {}).get(Spectrum.name)
    return found if isinstance(found, Spectrum) else None


def outputs(
    rep: Representation, g: Tensor | None, confidence: Confidence | None = None, spectral: Spectrum | None = None
) -> tuple[Tensor, ...]:
    """features, content, per axis marginal, g, spread and where it is calibrated the probability, how strange the
    image is to a calibrated model, and the features moved on the first axis, by every action."""
    if g is None:
        return (rep.flat,)
    parts = [rep.flat, rep.content]
    for axis in rep.layout.axes:
        marginal, estimate = rep.marginal(axis), rep.recover(axis)
        parts += [marginal, *estimate]
        if confidence is not None and axis.name in confidence.axes:
            parts.append(confidence.probability(axis, marginal, estimate.g))
    if confidence is not None:
        parts.append(confidence.strangeness(rep.flat))
    first = rep.layout.axes[0]
    # Without an origin g is how far to go from where the image is: from 0, that is.
    parts.append(rep.action(Prescribed.name, first).carry(rep.flat, 0.0, g))
    if spectral is not None:
        parts.append(spectral.act(rep.flat, g if rep.relative else g - rep.recover(first).g))
    return tuple(parts)


def input_names(encoder: Encoder) -> list[str]:
    """images, and the element that the features are moved to (`g`) or by (`by`); images alone without a table."""
    if not encoder.layout.axes:
        return ["images"]
    return ["images", "by" if encoder.relative else "g"]


def output_names(encoder: Encoder) -> list[str]:
    """Names of the graph's outputs, in order."""
    if not encoder.layout.axes:
        return ["features"]
    judged = () if encoder.confidence is None else encoder.confidence.axes
    each = [
        f"{what}_{axis.name}"
        for axis in encoder.layout.axes
        for what in ("marginal", "g", "spread", *(["probability"] if axis.name in judged else []))
    ]
    each += [] if encoder.confidence is None else ["strangeness"]
    turned = ["turned"] if spectral_action(encoder) is not None else []
    return ["features", "content", *each, "shifted" if encoder.relative else "acted", *turned]


def export(encoder: Encoder, path: Path, kind: Literal["onnx", "pt2"]) -> float:
    """Write the graph with a free batch size, compare it with torch, and return the largest difference.

    Above TOLERANCE, absolute or relative to the value, there is an error and no file.
    """
    if kind == "onnx":
        missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
        if missing:
            raise DuetError(f"export to ONNX needs {', '.join(missing)}: {install_command('export')}")
    if encoder.image_size is None:
        raise DuetError("this model does not say which size of images it takes; give Encoder(..., image_size=...)")
    encoder = copy.deepcopy(encoder).to("cpu", torch.float32).eval()  # the caller's own stays as and where it is
    with whole_file(path) as partial, _quiet():
        write, read = (_write_onnx, _read_onnx) if kind == "onnx" else (_write_pt2, _read_pt2)
        try:
            write(_program(encoder), partial, encoder)
        except Exception as error:
            raise DuetError(f"this model cannot be exported to {kind}: {first_line(error)}") from error
        return compare(encoder, read(partial))


def compare(encoder: Encoder, run: Run) -> float:
    """The largest difference between a graph and the encoder on images of several batch sizes."""
    worst = 0.0
    generator = torch.Generator().manual_seed(0)
    for size in BATCHES:
        inputs = _example(encoder, size, generator)
        found = dict(zip(output_names(encoder), run(inputs), strict=True))
        for name, ours in _expected(encoder, inputs, found).items():
            theirs = found[name]
            if ours.shape != theirs.shape:
                raise DuetError(f"the exported {name} is {tuple(theirs.shape)} instead of {tuple(ours.shape)}")
            group = encoder.groups.get(name.removeprefix("g_")) if name.startswith("g_") else None
            difference = theirs - ours if group is None else group.domain.difference(theirs, ours)
            worst = max(worst, float((difference.abs() / ours.abs().clamp(min=1)).nan_to_num(math.inf).max()))
            if worst > TOLERANCE:
                raise DuetError(f"the exported {name} differs from torch by {worst:.2g}, more than {TOLERANCE:g}")
    return worst


def _expected(encoder: Encoder, inputs: tuple[Tensor, ...], found: dict[str, Tensor]) -> dict[str, Tensor]:
    """What torch makes of the inputs."""
    with torch.no_grad():
        rep = encoder.representation(encoder(inputs[0]))
        spectral = spectral_action(encoder)
        given = inputs[1] if encoder.layout.axes else None
        ours = outputs(rep, given, encoder.confidence, spectral)
        expected = dict(zip(output_names(encoder), ours, strict=True))
        # A curve may be steep; marginal and g have a check of their own, so this one starts from the graph's.
        for axis in rep.layout.axes:
            if encoder.confidence is not None and axis.name in encoder.confidence.axes:
                read = found[f"marginal_{axis.name}"], found[f"g_{axis.name}"]
                expected[f"probability_{axis.name}"] = encoder.confidence.probability(axis, *read)
        if "shifted" in expected:
            # T is steep in g, and where a marginal is nearly flat g itself is known to few digits: g has a check of
            # its own, so this one starts from the graph's.
            axis = rep.layout.axes[0]
            g = axis.target.domain.wrap(found[f"g_{axis.name}"] + inputs[1])
            expected["shifted"] = act(rep.flat, rep.layout, axis, g)
        elif spectral is not None:
            expected["turned"] = spectral.act(rep.flat, inputs[1] - found[f"g_{rep.layout.axes[0].name}"])
    return expected


def _program(encoder: Encoder) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    example = _example(encoder, 2, torch.Generator().manual_seed(0))
    with torch.no_grad():
        return torch.export.export(Graph(encoder).eval(), example, dynamic_shapes=tuple({0: batch} for _ in example))


def _example(encoder: Encoder, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    assert encoder.image_size is not None
    images = torch.rand(size, encoder.channels, *encoder.image_size, generator=generator)
    return (images, torch.rand(size, generator=generator)) if encoder.layout.axes else (images,)


def _write_onnx(program: torch.export.ExportedProgram, path: Path, encoder: Encoder) -> None:
    done: Any = torch.onnx.export(
        program,
        (),
        input_names=input_names(encoder),
        output_names=output_names(encoder),
        dynamo=True,
        verbose=False,
    )
    _name_batch_axis(done.model.graph)
    done.model.metadata_props["duet"] = json.dumps(_description(encoder))
    done.save(str(path), external_data=False)


def _name_batch_axis(graph: Any) -> None:
    """The free axis is called `batch`: the exporter takes the name of torch's own symbol, such as s34."""
    from onnx_ir import Shape

    for value in [*graph.inputs, *graph.outputs, *(out for node in graph for out in node.outputs)]:
        if value.shape is not None and any(not isinstance(side, int) for side in value.shape):
            sides = [side if isinstance(side, int) else _renamed(str(side.value)) for side in value.shape]
            value.shape = Shape(sides)


def _renamed(symbol: str) -> str:
    return re.sub(r"\bs\d+\b", "batch", symbol)


def _read_onnx(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        given = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(array) for array in session.run(None, given))

    return run


def _write_pt2(program: torch.export.ExportedProgram, path: Path, encoder: Encoder) -> None:
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={"duet.json": json.dumps(_description(encoder))})
    path.write_bytes(buffer.getvalue())


def _read_pt2(path: Path) -> Run:
    module = torch.export.load(io.BytesIO(path.read_bytes())).module()

    def run(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tuple(module(*inputs))

    return run


def _description(encoder: Encoder) -> dict[str, Any]:
    """What the numbers mean: stored in the file."""
    axes = [
        {
            "name": axis.name,
            "bins": axis.bins,
            **{key: value for key, value in encoder.groups[axis.name].describe().items() if key != "group"},
            "parameter_at_g_0_and_1": [float(encoder.groups[axis.name].parameter(end)) for end in (0.0, 1.0)],
            "identity_g": encoder.groups[axis.name].identity,
        }
        for axis in encoder.layout.axes
    ]
    return {
        "inputs": input_names(encoder),
        "outputs": output_names(encoder),
        "image": [encoder.channels, *(encoder.image_size or ())],
        "layout": encoder.layout.to_dict(),
        "axes": axes,
        "turns": encoder.turns,
        **({} if encoder.confidence is None else {"sure": {"probability_from": SURE, "strangeness_up_to": 1.0}}),
    }


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters talk about their own versions on every channel; what matters comes as an exception."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
