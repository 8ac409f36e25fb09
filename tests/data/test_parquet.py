"""Parquet files and datasets: columns found, labels read, nothing trusted."""

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import solid
from PIL import Image

from duet.data import open_images, parquet
from duet.error import DuetError

ENCODED = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def write(path, count=10, first=0, metadata=True, **columns):
    rows = {"image": [{"bytes": solid(first + i), "path": None} for i in range(count)], **columns}
    if metadata:
        features = datasets.Features({"image": datasets.Image()})
        for name, values in columns.items():
            features[name] = datasets.Value("string" if isinstance(values[0], str) else "int64")
        datasets.Dataset.from_dict(rows, features=features).to_parquet(path)
    else:
        pq.write_table(pa.table(rows), path)
    return path


def values(images):
    return images.tensors()[0][:, 0, 0, 0].tolist()


@pytest.mark.parametrize("metadata", [True, False])
def test_a_parquet_file_with_or_without_hugging_face_metadata(tmp_path, metadata):
    write(tmp_path / "x.parquet", metadata=metadata, label=list(range(10)), note=["n"] * 10)
    images = open_images(tmp_path / "x.parquet", "all")
    assert values(images) == images.labels.tolist() == list(range(10))
    assert images.classes is None
    assert images.num_classes == 10


def test_class_names_come_from_the_file(tmp_path):
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})
    rows = {"image": [Image.new("RGB", (8, 8))] * 4, "label": [0, 1, 1, 0]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "x.parquet")
    images = open_images(tmp_path / "x.parquet", "all")
    assert images.classes == ("no", "yes")
    assert images.labels.tolist() == [0, 1, 1, 0]


def test_words_are_numbered_alike_in_every_split(tmp_path):
    write(tmp_path / "train.parquet", 2, label=["cat", "ant"])
    write(tmp_path / "test.parquet", 2, label=["bee", "cat"])
    train, test = open_images(tmp_path), open_images(tmp_path, "test")
    assert train.classes == test.classes == ("ant", "bee", "cat")
    assert train.labels.tolist() == [2, 0]
    assert test.labels.tolist() == [1, 2]


def test_categories_as_pandas_writes_them_are_words(tmp_path):
    labels = pa.array(["b", "a", "b"]).dictionary_encode()
    images = pa.array([{"bytes": solid(i)} for i in range(3)])
    pq.write_table(pa.table({"image": images, "label": labels}), tmp_path / "x.parquet")
    opened = open_images(tmp_path / "x.parquet", "all")
    assert opened.classes == ("a", "b")
    assert opened.labels.tolist() == [1, 0, 1]


def test_labels_may_be_missing_altogether_or_here_and_there(tmp_path):
    write(tmp_path / "none.parquet")
    assert open_images(tmp_path / "none.parquet").labels is None
    write(tmp_path / "some.parquet", 3, label=[1, None, 0])
    assert open_images(tmp_path / "some.parquet", "all").labels.tolist() == [1, -1, 0]


def test_a_glob_joins_files_and_their_names_tell_the_splits(tmp_path):
    write(tmp_path / "train-00000-of-00002.parquet", 5, first=0)
    write(tmp_path / "train-00001-of-00002.parquet", 5, first=5)
    write(tmp_path / "test-00000-of-00001.parquet", 3, first=100)
    assert values(open_images(str(tmp_path / "*.parquet"))) == list(range(10))
    assert values(open_images(str(tmp_path / "*.parquet"), "test")) == [100, 101, 102]


def test_folders_may_tell_the_splits_too(tmp_path):
    for split, first in (("train", 0), ("validation", 50)):
        (tmp_path / split).mkdir()
        write(tmp_path / split / "0000.parquet", 4, first=first)
    assert values(open_images(tmp_path)) == [0, 1, 2, 3]
    assert values(open_images(tmp_path, "test")) == [50, 51, 52, 53]


def test_files_of_one_split_are_all_there_is(tmp_path):
    write(tmp_path / "train.parquet")
    train, test = (values(open_images(tmp_path / "train.parquet", split)) for split in ("train", "test"))
    assert sorted(train + test) == list(range(10))
    assert len(test) == 2


def test_a_large_file_goes_through_the_cache_of_datasets(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(parquet, "IN_MEMORY_BYTES", 0)
    write(tmp_path / "x.parquet", label=list(range(10)), note=["n"] * 10)
    images = open_images(tmp_path / "x.parquet", "all")
    assert values(images) == images.labels.tolist() == list(range(10))


def test_plain_bytes_are_images(tmp_path):
    pq.write_table(pa.table({"png": [solid(1), solid(2)], "id": [5, 6]}), tmp_path / "x.parquet")
    assert values(open_images(tmp_path / "x.parquet", "all")) == [1, 2]


def test_no_image_column_names_the_columns_found(tmp_path):
    pq.write_table(pa.table({"text": ["a"], "size": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DuetError, match=r"no image column in .*x\.parquet; its columns are text, size"):
        open_images(tmp_path / "x.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1 not really", b"PAR1" + b"\0" * 64 + b"PAR1"])
def test_a_damaged_file_is_one_line(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(DuetError, match=r"cannot read .*x\.parquet as parquet: ") as caught:
        open_images(tmp_path / "x.parquet")
    assert "\n" not in str(caught.value)


def test_an_empty_table_is_an_error(tmp_path):
    write(tmp_path / "x.parquet", 0, metadata=True)
    with pytest.raises(DuetError, match="has no rows"):
        open_images(tmp_path / "x.parquet")


def test_broken_rows_are_left_out(tmp_path):
    rows = [{"bytes": solid(1), "path": None}, {"bytes": None, "path": None}, {"bytes": b"x", "path": None}]
    pq.write_table(pa.table({"image": pa.array(rows, ENCODED)}), tmp_path / "x.parquet")
    images = open_images(tmp_path / "x.parquet", "all")
    assert values(images) == [1]
    assert images.skipped == ("row 1: neither bytes nor a path", "row 2: not an image of a known format")


def test_a_table_may_name_files_beside_it_and_no_others(tmp_path):
    (tmp_path / "secret.png").write_bytes(solid(9))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine.png").write_bytes(solid(4))
    rows = [
        {"path": path} for path in ("mine.png", "../secret.png", str(tmp_path / "secret.png"), "https://x.org/a.png")
    ]
    pq.write_table(pa.table({"image": pa.array(rows, ENCODED)}), tmp_path / "set" / "x.parquet")
    images = open_images(tmp_path / "set" / "x.parquet", "all")
    assert values(images) == [4]
    assert [line.split(": ", 1)[1] for line in images.skipped] == [
        "a path outside the parquet file's folder",
        "a path outside the parquet file's folder",
        "a link, not an image: store the bytes in the table",
    ]


def make_dataset(count=10, **columns):
    rows = {"image": [Image.new("RGB", (8, 8), (i, 0, 0)) for i in range(count)], **columns}
    return datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())


def test_a_dataset_in_memory_is_a_source():
    images = open_images(make_dataset(label=list("abababcabc")), "all")
    assert values(images) == list(range(10))
    assert images.classes == ("a", "b", "c")


def test_a_dataset_that_was_filtered_and_formatted_keeps_its_rows():
    dataset = make_dataset(label=list(range(10))).select([7, 3, 5]).with_format("numpy", columns=["label"])
    images = open_images(dataset, "all")
    assert values(images) == images.labels.tolist() == [7, 3, 5]


def test_a_dataset_of_paths_and_one_of_arrays(tmp_path):
    (tmp_path / "a.png").write_bytes(solid(3))
    assert values(open_images(datasets.Dataset.from_dict({"image": [str(tmp_path / "a.png")]}), "all")) == [3]
    features = datasets.Features({"image": datasets.Array3D((8, 8, 3), "uint8")})
    arrays = datasets.Dataset.from_dict({"image": [np.full((8, 8, 3), 6, np.uint8)]}, features=features)
    assert values(open_images(arrays, "all")) == [6]


def test_a_dataset_dict_brings_its_splits():
    both = datasets.DatasetDict(train=make_dataset(6), valid=make_dataset(2))
    assert len(open_images(both)) == 6
    assert len(open_images(both, "test")) == 2


@pytest.mark.parametrize("source", [make_dataset(3).to_iterable_dataset(), 5, [1, 2]])
def test_what_cannot_be_indexed_is_refused(source):
    with pytest.raises(DuetError, match="cannot be indexed"):
        open_images(source)


def test_an_image_column_is_preferred_to_a_thumbnail():
    dataset = make_dataset(2).add_column("thumbnail", [b"x", b"y"])
    assert values(open_images(dataset, "all")) == [0, 1]


def test_a_path_is_relative_to_the_folder_of_its_own_file(tmp_path):
    for number, folder in enumerate("ab"):
        (tmp_path / folder).mkdir()
        for i in range(3):
            (tmp_path / folder / f"{i}.png").write_bytes(solid(100 * number + i))
        columns = {"path": pa.array([f"{i}.png" for i in range(3)], pa.large_string()), "label": [number] * 3}
        pq.write_table(pa.table(columns), tmp_path / folder / "part.parquet")
    images = open_images(str(tmp_path / "*" / "part.parquet"), "all")
    assert values(images) == [0, 1, 2, 100, 101, 102]
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_path_that_is_none_is_left_out(tmp_path):
    (tmp_path / "0.png").write_bytes(solid(7))
    pq.write_table(pa.table({"path": ["0.png", "a\0b.png"]}), tmp_path / "x.parquet")
    images = open_images(tmp_path / "x.parquet", "all")
    assert values(images) == [7]
    assert "not a path" in images.skipped[0]


def test_a_file_that_tells_no_split_stays_out_of_those_that_do(tmp_path, caplog):
    (tmp_path / "set").mkdir()
    for first, name in ((10, "train"), (200, "test"), (100, "extra")):
        write(tmp_path / "set" / f"{name}.parquet", count=5, first=first)
    assert values(open_images(str(tmp_path / "set" / "*.parquet"), "train")) == [10, 11, 12, 13, 14]
    assert values(open_images(str(tmp_path / "set" / "*.parquet"), "test")) == [200, 201, 202, 203, 204]
    assert "extra.parquet is left out" in caplog.text


def test_labels_beyond_the_classes_count_as_none(tmp_path, caplog):
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee"])})
    schema = features.arrow_schema
    rows = {"image": [{"bytes": solid(i), "path": None} for i in range(3)], "label": [1, 5, 0]}
    pq.write_table(pa.table(rows, schema=schema), tmp_path / "x.parquet")
    assert open_images(tmp_path / "x.parquet", "all").labels.tolist() == [1, -1, 0]
    assert "1 labels beyond the 2 classes" in caplog.text


def test_ids_are_numbered_alike_in_every_split(tmp_path):
    write(tmp_path / "train.parquet", count=3, label=[10**9, 10**9 + 7, -1])
    write(tmp_path / "test.parquet", count=2, label=[10**9 + 7, 10**9 + 1])
    train, test = (open_images(str(tmp_path / "*.parquet"), split) for split in ("train", "test"))
    assert train.labels.tolist() == [0, 2, -1]
    assert test.labels.tolist() == [2, 1]
    assert train.classes == test.classes == ("1000000000", "1000000001", "1000000007")
