"""Parquet files and `datasets.Dataset`: tables with an image column and, perhaps, labels."""

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from ..error import DuetError, first_line
from .decoding import Encoded, Unreadable
from .folder import SPLIT_NAMES
from .source import Source, Splits

log = logging.getLogger(__name__)

IMAGE_NAMES = ("image", "img", "images", "picture", "photo", "jpg", "png", "bytes", "pixels", "path", "file_name")
WORDS = ("string", "large_string")
LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "category")
# Below this, tables are read straight into memory; above, `datasets` maps a copy of them from its cache.
IN_MEMORY_BYTES = 2**30
# Whole numbers up to here are labels as they stand; larger ones are numbered anew.
MOST_UNNAMED = 100_000


class Rows:
    """The image column of a table."""

    def __init__(self, dataset: datasets.Dataset, column: str, files: Sequence[Path] = ()) -> None:
        self._dataset, self._column = dataset, column
        self._roots = [file.parent for file in files]
        # A path is relative to the folder of its own file: rows before each file's end are its own.
        several = len(set(self._roots)) > 1
        self._ends = list(accumulate(pq.read_metadata(file).num_rows for file in files)) if several else []

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Encoded:
        value: Any = self._dataset[int(index)][self._column]
        path: str | None = None
        if isinstance(value, dict):
            path, value = value.get("path"), value.get("bytes")
        elif isinstance(value, str):
            path, value = value, None
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if value is not None:
            return np.asarray(value)
        if path is None:
            raise Unreadable("neither bytes nor a path")
        return self._local(path, index)

    def _local(self, path: str, index: int) -> Path:
        """A file named by a table: never fetched, and for a parquet file never outside its folder."""
        if "://" in path:
            raise Unreadable("a link, not an image: store the bytes in the table")
        if not self._roots:
            return Path(path)
        root = self._roots[bisect_right(self._ends, index)]
        try:
            inside = (root / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # such as a name with a zero byte, or a loop of links
            raise Unreadable(f"not a path: {first_line(error)}") from None
        if not inside.is_relative_to(root.resolve()):
            raise Unreadable("a path outside the parquet file's folder")
        return inside

    def name(self, index: int) -> str:
        return f"row {index}"


def open_parquet(files: Sequence[Path], name: str, image: str | None = None, label: str | None = None) -> Splits:
    """The splits of parquet files by name (train-00000.parquet, test/0000.parquet); "all" when the names tell none."""
    if not files:
        raise DuetError(f"no parquet file matches {name}")
    of_file = {file: _split_name(file) for file in sorted(files)}
    grouped: dict[str, list[Path]] = {}
    for file, split in of_file.items():
        if split is None and any(of_file.values()):
            # Mixed in, it would carry test images into training.
            log.warning("%s: %s is left out: the other files tell train from test by their names", name, file.name)
        else:
            grouped.setdefault(split or "all", []).append(file)
    if len(grouped) == 1:
        # Files of one split are all there is: their held-out part is the test.
        grouped = {"all": next(iter(grouped.values()))}
    vocabulary = partial(_parquet_words, sorted(files))
    return {split: partial(_read_parquet, part, name, image, label, vocabulary) for split, part in grouped.items()}


def open_dataset(dataset: Any, name: str = "the dataset", image: str | None = None, label: str | None = None) -> Splits:
    """The splits of a `datasets.DatasetDict`, or "all" of a `datasets.Dataset`."""
    if isinstance(dataset, datasets.Dataset):
        dataset = {"all": dataset}
    if not isinstance(dataset, dict) or not all(isinstance(part, datasets.Dataset) for part in dataset.values()):
        kind = type(dataset).__name__
        raise DuetError(f"{name} is a {kind}, which cannot be indexed: load it as a Dataset, without streaming")
    parts: dict[str, datasets.Dataset] = dataset
    vocabulary = partial(_dataset_words, list(parts.values()))
    return {
        SPLIT_NAMES.get(split, split): partial(_from_dataset, part, part.features, name, (), image, label, vocabulary)
        for split, part in parts.items()
    }


def _split_name(file: Path) -> str | None:
    for text in (file.stem, file.parent.name):
        word = re.match(r"[A-Za-z]*", text)
        if word and word[0].lower() in SPLIT_NAMES:
            return SPLIT_NAMES[word[0].lower()]
    return None


Vocabulary = Callable[[str], Iterable[Any]]  # every value of a column, over all splits


def _read_parquet(files: list[Path], name: str, image: str | None, label: str | None, vocabulary: Vocabulary) -> Source:
    try:
        features = datasets.Features.from_arrow_schema(_plain(pq.read_schema(files[0])))
        columns = [c for c in (_image_column(features, name, image), _label_column(features, label)) if c is not None]
        if sum(_decoded_bytes(file) for file in files) <= IN_MEMORY_BYTES:
            tables = [pq.ParquetFile(file).read(columns=columns) for file in files]
            # Without the metadata, which describes columns that were not read.
            tables = [table.cast(_plain(table.schema).remove_metadata()) for table in tables]
            dataset = datasets.Dataset(pa.concat_tables(tables, promote_options="permissive"))
        else:
            paths = [str(file) for file in files]
            dataset = datasets.load_dataset("parquet", data_files=paths, split="train", columns=columns)
    except DuetError:
        raise
    except Exception as error:  # pyarrow and datasets raise a dozen kinds for a damaged file.
        raise DuetError(f"cannot read {name} as parquet: {first_line(error)}") from error
    return _from_dataset(dataset, features, name, files, image, label, vocabulary)


def _plain(schema: Any) -> Any:
    """A schema whose categories, as pandas writes them, are plain values."""
    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(place, field.with_type(field.type.value_type))
    return schema


def _decoded_bytes(file: Path) -> int:
    metadata = pq.read_metadata(file)
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def _from_dataset(
    dataset: datasets.Dataset,
    features: datasets.Features,
    name: str,
    files: Sequence[Path],
    image: str | None,
    label: str | None,
    vocabulary: Vocabulary,
) -> Source:
    image = _image_column(features, name, image)
    label = _label_column(features, label)
    if not len(dataset):
        raise DuetError(f"{name} has no rows")
    dataset = dataset.with_format(None)
    labels, classes = None, None
    if label is not None:
        labels, classes = _labels(dataset, label, features[label], vocabulary)
    dataset = dataset.select_columns([image])
    if isinstance(dataset.features[image], datasets.Image):
        dataset = dataset.cast_column(image, datasets.Image(decode=False))
    return Source(Rows(dataset, image, files), labels, classes)


def _labels(
    dataset: datasets.Dataset, column: str, feature: Any, vocabulary: Vocabulary
) -> tuple[Tensor, tuple[str, ...] | None]:
    values = dataset.select_columns([column]).with_format("arrow")[:].column(0)
    if isinstance(feature, datasets.ClassLabel):
        classes = tuple(feature.names) if feature.names else None
    elif feature.dtype in WORDS:
        # Names are numbered over all splits, so that a number means the same class in each.
        classes = tuple(sorted({word for word in vocabulary(column) if word is not None}))
        number = {word: index for index, word in enumerate(classes)}
        return torch.tensor([number.get(word, -1) for word in values.to_pylist()]), classes
    else:
        classes = None
    labels = torch.from_numpy(np.array(values.cast(pa.int64()).fill_null(-1).to_numpy(), dtype=np.int64)).clamp(min=-1)
    if classes is not None:
        beyond = labels >= len(classes)
        if beyond.any():
            log.warning("%d labels beyond the %d classes count as none", int(beyond.sum()), len(classes))
        return labels.masked_fill(beyond, -1), classes
    if len(labels) and int(labels.max()) >= MOST_UNNAMED:
        # Numbers like these are ids: as classes they would make a head of that many outputs.
        known = torch.tensor(sorted({int(v) for v in vocabulary(column) if v is not None and v >= 0}))
        numbered = torch.searchsorted(known, labels.clamp(min=0))
        return numbered.masked_fill(labels < 0, -1), tuple(str(number) for number in known.tolist())
    return labels, None


def _image_column(features: datasets.Features, name: str, wanted: str | None) -> str:
    def rank(column: str) -> int | None:
        feature = features[column]
        if isinstance(feature, datasets.Image):
            return 0
        if isinstance(feature, dict) and "bytes" in feature:
            return 1
        dtype = getattr(feature, "dtype", None)
        if dtype in ("binary", "large_binary"):
            return 2
        if column in IMAGE_NAMES and (isinstance(feature, (datasets.Array2D, datasets.Array3D)) or dtype in WORDS):
            return 3
        return None

    if wanted is not None and wanted in features:
        return wanted
    ranks = {column: rank(column) for column in features}
    found: list[str] = [column for column in features if ranks[column] is not None]
    if not found:
        raise DuetError(f"no image column in {name}; its columns are {', '.join(features)}: name one 'image'")
    return min(found, key=lambda column: (ranks[column], _place(column, IMAGE_NAMES)))


def _label_column(features: datasets.Features, wanted: str | None) -> str | None:
    if wanted is not None and wanted in features:
        return wanted

    def fits(column: str) -> bool:
        feature = features[column]
        if isinstance(feature, datasets.ClassLabel):
            return True
        dtype = getattr(feature, "dtype", None) if isinstance(feature, datasets.Value) else None
        return column in LABEL_NAMES and dtype is not None and bool(re.match("u?int|bool|(large_)?string", dtype))

    found = [column for column in features if fits(column)]
    return min(found, key=lambda column: _place(column, LABEL_NAMES)) if found else None


def _place(column: str, names: tuple[str, ...]) -> int:
    return names.index(column) if column in names else len(names)


def _parquet_words(files: list[Path], column: str) -> Iterable[str | None]:
    for file in files:
        if column in pq.read_schema(file).names:
            yield from pq.ParquetFile(file).read(columns=[column]).column(0).unique().to_pylist()


def _dataset_words(parts: list[datasets.Dataset], column: str) -> Iterable[str | None]:
    for part in parts:
        if column in part.features:
            yield from part.unique(column)
