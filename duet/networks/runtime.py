"""A frozen network through ONNX Runtime, where it is installed: several times as fast as torch on a CPU."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from .trunk import Trunk

log = logging.getLogger(__name__)

TOLERANCE = 1e-4
"""The largest difference to torch, relative to the largest value."""
Run = Callable[[Tensor], Tensor]
_RUNS: WeakKeyDictionary[Trunk, dict[tuple[int, ...], Run | None]] = WeakKeyDictionary()


def accelerated(trunk: Trunk, images: Tensor, make: bool = True) -> Run | None:
    """What computes `trunk.maps` of such images faster, made once a size; None where torch has to do it itself.

    With make=False only what was made before.
    """
    if images.device.type != "cpu" or images.dtype != torch.float32 or trunk.mean.dtype != torch.float32:
        return None
    if any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")):
        return None
    made = _RUNS.setdefault(trunk, {})
    size = tuple(images.shape[1:])
    if size not in made and make:
        made[size] = _made(trunk, size)
    return made.get(size)


def _made(trunk: Trunk, size: tuple[int, ...]) -> Run | None:
    """The session of a trunk, if it does what torch does; a network that cannot be exported is no mistake."""
    example = torch.rand(2, *size, generator=torch.Generator().manual_seed(0))
    try:
        with _quiet(), torch.inference_mode(False):
            run = _session(_Maps(trunk).eval(), example.clone())
            with torch.no_grad():
                expected, found = trunk.maps(example), run(example)
    except Exception as error:  # the exporter's own, of which there are many
        log.info("%s runs in torch: it cannot be exported (%s)", trunk.name, type(error).__name__)
        return None
    off = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-12))
    if not off <= TOLERANCE:
        log.warning("%s runs in torch: ONNX Runtime is off by %.1e", trunk.name, off)
        return None
    return run


def _session(module: nn.Module, example: Tensor) -> Run:
    import onnxruntime

    batch = torch.export.Dim("batch", min=1)
    with torch.no_grad():
        program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
        done = torch.onnx.export(program, (), input_names=["images"], output_names=["maps"], dynamo=True, verbose=False)
    assert done is not None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        done.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run(images: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"images": images.contiguous().numpy()})[0])

    return run


class _Maps(nn.Module):
    """The trunk as a graph."""

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, images: Tensor) -> Tensor:
        return self.trunk.maps(images)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks about its own versions on every channel."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            open(os.devnull, "w") as nothing,
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(nothing),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
