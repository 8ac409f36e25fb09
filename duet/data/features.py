"""Features that were computed elsewhere: a parquet file with an id and a g a row, which any language can write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..error import DuetError, first_line

LABEL_NAMES = ("label", "labels", "class", "target", "category")
LARGEST = 8 * 2**30
"""Bytes that the columns of such a file may take in memory."""


@dataclass(frozen=True)
class FeatureTable:
    """Features z (M, D) with names, the image that each is a view of (M,), the element g (M,), perhaps labels (M,)."""

    name: str
    z: Tensor
    ids: Tensor
    g: Tensor
    features: tuple[str, ...]
    labels: Tensor | None = None
    classes: tuple[str, ...] | None = None


def read_features(path: Path) -> FeatureTable:
    """The table in a parquet file: columns id, g, perhaps label, and the features: one list column, or numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        if size > LARGEST:
            raise DuetError(f"{path} would take more than {LARGEST // 2**30} GiB; write fewer views")
        schema = pq.read_schema(path)
        columns, label = _columns(schema, path)
        wanted = ["id", "g", *columns, *([] if label is None else [label])]
        table = pq.ParquetFile(path).read(columns=wanted)
        if not len(table):
            raise DuetError(f"{path} has no rows")
        ids, _ = _numbered(table.column("id"), path, "id")
        z, names = _features(table, columns, path)
        g = torch.from_numpy(table.column("g").cast(pa.float64()).to_numpy().copy())
        labels, classes = (None, None) if label is None else _numbered(table.column(label), path, label)
    except (DuetError, FileNotFoundError):
        raise
    except Exception as error:  # pyarrow raises a dozen kinds for a damaged file
        raise DuetError(f"cannot read {path} as features: {first_line(error)}") from error
    if not bool(((g >= -1e-6) & (g <= 1 + 1e-6)).all()):
        raise DuetError(f"the g of {path} must lie in [0, 1], with none missing: shares of the group's whole span")
    if not bool(torch.isfinite(z).all()):
        raise DuetError(f"the features of {path} hold NaN, infinity or missing values")
    return FeatureTable(path.name, z, ids, g, names, labels, classes)


def _columns(schema: Any, path: Path) -> tuple[list[str], str | None]:
    """The names of the columns with features, and of the labels."""
    import pyarrow as pa

    missing = [name for name in ("id", "g") if name not in schema.names]
    if missing:
        raise DuetError(f"{path} has no column {missing[0]!r}; features are a table of id, g and numbers")
    label = next((name for name in LABEL_NAMES if name in schema.names), None)
    rest = [field for field in schema if field.name not in ("id", "g", label)]
    lists = [field.name for field in rest if _is_list(field.type) and pa.types.is_floating(field.type.value_type)]
    if len(lists) > 1:
        raise DuetError(f"{path} has several columns of features, {', '.join(lists)}; keep one")
    numbers = [field.name for field in rest if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)]
    if not lists and not numbers:
        raise DuetError(f"{path} has no features beside id and g: one column of lists, or columns of numbers")
    return lists or numbers, label


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _features(table: Any, columns: list[str], path: Path) -> tuple[Tensor, tuple[str, ...]]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    first = table.column(columns[0])
    if not _is_list(first.type):
        parts = [table.column(name).cast(pa.float64()).to_numpy() for name in columns]
        return torch.from_numpy(np.stack(parts, 1)).float(), tuple(columns)
    if first.null_count:
        raise DuetError(f"{first.null_count} rows of {path} have no features")
    lengths = pc.list_value_length(first).unique().to_pylist()
    if len(lengths) != 1:
        raise DuetError(f"the rows of {path} have unequal numbers of features")
    values = np.concatenate([chunk.flatten().to_numpy(zero_copy_only=False) for chunk in first.chunks])
    z = torch.from_numpy(values.astype(np.float32)).reshape(len(table), lengths[0])
    return z, tuple(f"{columns[0]}_{i}" for i in range(lengths[0]))


def _numbered(column: Any, path: Path, name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Every value as its place among the different ones, which are given as text."""
    if column.null_count:
        raise DuetError(f"{column.null_count} rows of {path} have no {name}")
    values = column.to_pylist()
    known = sorted(set(values))
    place = {value: number for number, value in enumerate(known)}
    return torch.tensor([place[value] for value in values]), tuple(str(value) for value in known)
