"""Rows to a file, as they come: parquet by row groups, CSV by lines, npz by members, in constant memory."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..error import DuetError, printable
from ..file import PARTIAL, whole_file

ENDINGS = (".parquet", ".csv", ".npz")
ROW_GROUP = 4096
COPY_BYTES = 1 << 20
EPOCH = (1980, 1, 1, 0, 0, 0)  # members carry no time: the same rows make the same file

Columns = dict[str, NDArray[Any]]
Units = dict[str, str]


def check_ending(path: Path) -> None:
    """Refuse a file that no table can be written to, before anything is computed."""
    if path.suffix.lower() not in ENDINGS:
        raise DuetError(f"{path} should end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")


class RowWriter(Protocol):
    """Takes rows, a batch at a time."""

    def write(self, paths: list[str], columns: Columns) -> None:
        """Append rows: the paths, and arrays (n,) or (n, D) by column."""
        ...


@contextmanager
def open_table(path: Path, units: Units) -> Iterator[RowWriter]:
    """A table by its suffix, one of ENDINGS, that appears whole when the rows are written, or not at all."""
    kinds: dict[str, Any] = dict(zip(ENDINGS, (_Parquet, _Csv, _Npz), strict=True))
    check_ending(path)
    with whole_file(path) as partial:
        table = kinds[path.suffix.lower()](partial, units)
        try:
            yield table
            table.finish()
        finally:
            table.close()


class _Parquet:
    """One row group of ROW_GROUP rows after another."""

    def __init__(self, path: Path, units: Units) -> None:
        self._path, self._units = path, units
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._rows = 0

    def write(self, paths: list[str], columns: Columns) -> None:
        import pyarrow as pa

        arrays = {"path": pa.array(paths, pa.string()), **{name: _arrow(array) for name, array in columns.items()}}
        if self._writer is None:
            import pyarrow.parquet as pq

            fields = [pa.field(name, a.type, False, {"unit": self._units.get(name, "")}) for name, a in arrays.items()]
            self._schema = pa.schema(fields)
            self._writer = pq.ParquetWriter(self._path, self._schema)
        self._waiting += pa.Table.from_arrays(list(arrays.values()), schema=self._schema).to_batches()
        self._rows += len(paths)
        while self._rows >= ROW_GROUP:
            self._flush(ROW_GROUP)

    def _flush(self, rows: int) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._waiting)
        self._writer.write_table(table.slice(0, rows), row_group_size=rows)
        self._waiting = table.slice(rows).to_batches()
        self._rows -= rows

    def finish(self) -> None:
        if self._rows:
            self._flush(self._rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _arrow(array: NDArray[Any]) -> Any:
    import pyarrow as pa

    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])


class _Csv:
    """A line for each row; features of D numbers take D columns, features_0 and so on."""

    def __init__(self, path: Path, units: Units) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer: Any = None

    def write(self, paths: list[str], columns: Columns) -> None:
        wide = [array if array.ndim == 2 else array[:, None] for array in columns.values()]
        if self._writer is None:
            names = [
                name if array.ndim == 1 else f"{name}_{place}"
                for name, array in columns.items()
                for place in range(1 if array.ndim == 1 else array.shape[1])
            ]
            self._writer = csv.writer(self._file, lineterminator="\n")
            self._writer.writerow(["path", *names])
        for number, path in enumerate(paths):
            # What stands for a line in a name would break one here, and the readers of CSV are many.
            self._writer.writerow([printable(path), *(_as_text(value) for array in wide for value in array[number])])

    def finish(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _as_text(value: Any) -> str:
    """A number that reads back as itself; true and false in small letters, as the other tables of the package do."""
    return str(bool(value)).lower() if isinstance(value, np.bool_) else str(value)


class _Npz:
    """Every column grows in a file of its own; at the end each becomes a member of the archive."""

    def __init__(self, path: Path, units: Units) -> None:
        self._path = path
        self._folder = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=path.parent))
        self._spools: dict[str, IO[bytes]] = {}
        self._shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._rows = self._longest = 0

    def write(self, paths: list[str], columns: Columns) -> None:
        for path in paths:
            self._spool("path").write(json.dumps(path).encode() + b"\n")
            self._longest = max(self._longest, len(path))
        for name, array in columns.items():
            self._shapes[name] = (array.shape[1:], array.dtype)
            self._spool(name).write(np.ascontiguousarray(array).tobytes())
        self._rows += len(paths)

    def finish(self) -> None:
        with zipfile.ZipFile(self._path, "w") as archive:
            for name, spool in self._spools.items():
                spool.seek(0)
                shape, kind = self._shapes.get(name, ((), np.dtype(f"<U{max(1, self._longest)}")))
                member = zipfile.ZipInfo(f"{name}.npy", EPOCH)
                member.external_attr = 0o644 << 16
                # Names are mostly padding: they shrink, features do not.
                member.compress_type = zipfile.ZIP_STORED if name in self._shapes else zipfile.ZIP_DEFLATED
                with archive.open(member, "w", force_zip64=True) as out:
                    header = {"descr": kind.str, "fortran_order": False, "shape": (self._rows, *shape)}
                    np.lib.format.write_array_header_1_0(out, header)
                    if name in self._shapes:
                        shutil.copyfileobj(spool, out, COPY_BYTES)
                    else:
                        for line in spool:
                            out.write(np.array(json.loads(line), dtype=kind).tobytes())

    def close(self) -> None:
        for spool in self._spools.values():
            spool.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spool(self, name: str) -> IO[bytes]:
        if name not in self._spools:
            self._spools[name] = (self._folder / str(len(self._spools))).open("w+b")
        return self._spools[name]
