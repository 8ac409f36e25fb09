"""Files to a table of features: one row for each image that can be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..error import DuetError
from ..model import Encoder
from .files import Reader, find_files, stored
from .writer import Columns, open_table


def embed_files(images: Sequence[str | os.PathLike[str]], output: Path, encoder: Encoder, batch_size: int = 256) -> int:
    """Write path, features (D) and <group>, <group>_spread in the group's unit; return the number of rows.

    A calibrated model adds <group>_sure and <group>_probability; others cannot say.

    Files are read, embedded and written a batch at a time, so that their number does not matter.
    """
    axes = [axis for axis in encoder.layout.axes if axis.readable]
    taken = {"path", "features"} & {axis.name for axis in axes}
    if taken:
        raise DuetError(f"a group of this model is called {taken.pop()!r}, which is the name of another column")
    if any(Path(image).resolve() == output.resolve() for image in images):
        raise DuetError(f"{output} is one of the inputs; choose another output")
    units = {column: encoder.groups[a.name].unit for a in axes for column in (a.name, f"{a.name}_spread")}
    reader = Reader(encoder, batch_size)
    # Counting costs a walk through the folders: only where somebody watches.
    total = sum(1 for _ in find_files(images)) if sys.stderr.isatty() else None
    with open_table(output, units) as table:
        for batch in reader.batches(find_files(images), total, "embedding"):
            representation = encoder.representation(batch.features)
            columns: Columns = {"features": representation.numpy()}
            for axis in axes:
                reading = encoder.recover(representation, axis)
                columns[axis.name] = reading.value.cpu().numpy()
                columns[f"{axis.name}_spread"] = reading.spread.cpu().numpy()
                if reading.sure is not None and reading.probability is not None:
                    columns[f"{axis.name}_sure"] = reading.sure.cpu().numpy()
                    columns[f"{axis.name}_probability"] = reading.probability.cpu().numpy()
            table.write([stored(file.path) for file in batch.files], columns)
    return reader.readable
