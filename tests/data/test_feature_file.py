"""Features from a file: what can be read, and one line for what cannot."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from duet.data.features import read_features

Z = np.random.default_rng(0).normal(size=(6, 3))
IDS, G = [3, 3, 7, 7, 5, 5], np.linspace(0, 1, 6)


def write(file, /, **columns):
    pq.write_table(pa.table(columns), file)
    return file


def as_lists(z, kind=None):
    return pa.array([list(row) for row in z], kind or pa.list_(pa.float32()))


@pytest.mark.parametrize(
    "columns",
    [
        {"a": Z[:, 0], "b": Z[:, 1], "c": Z[:, 2]},
        {"features": as_lists(Z)},
        {"z": as_lists(Z, pa.list_(pa.float64(), 3))},
        {"z": as_lists(Z, pa.large_list(pa.float64())), "path": ["a"] * 6, "step": list(range(6))},
    ],
)
def test_one_list_a_row_or_a_column_a_feature(tmp_path, columns):
    table = read_features(write(tmp_path / "f.parquet", id=IDS, g=G, **columns))
    assert np.allclose(table.z.numpy(), Z, atol=1e-6)
    assert table.ids.tolist() == [0, 0, 2, 2, 1, 1]
    assert torch.allclose(table.g, torch.from_numpy(G))
    assert len(table.features) == 3
    assert table.labels is None
    assert table.name == "f.parquet"


def test_a_file_of_many_row_groups(tmp_path):
    z = np.random.default_rng(1).normal(size=(100, 4))
    table = pa.table({"id": np.arange(100) // 2, "g": np.linspace(0, 1, 100), "z": as_lists(z)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=7)
    assert np.allclose(read_features(tmp_path / "f.parquet").z.numpy(), z, atol=1e-6)


def test_ids_and_labels_may_be_words(tmp_path):
    names = ["x", "x", "a", "a", "k", "k"]
    table = read_features(write(tmp_path / "f.parquet", id=names, g=G, label=["dog", "dog", *["cat"] * 4], f=Z[:, 0]))
    assert table.ids.tolist() == [2, 2, 0, 0, 1, 1]
    assert table.labels.tolist() == [1, 1, 0, 0, 0, 0]
    assert table.classes == ("cat", "dog")
    assert table.features == ("f",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"g": G, "f": Z[:, 0]}, "no column 'id'"),
        ({"id": IDS, "f": Z[:, 0]}, "no column 'g'"),
        ({"id": IDS, "g": G}, "no features beside"),
        ({"id": IDS, "g": G * 360, "f": Z[:, 0]}, r"in \[0, 1\]"),
        ({"id": IDS, "g": [None, *G[1:]], "f": Z[:, 0]}, r"in \[0, 1\]"),
        ({"id": [None, *IDS[1:]], "g": G, "f": Z[:, 0]}, "have no id"),
        ({"id": IDS, "g": G, "f": [np.nan, *Z[1:, 0]]}, "NaN"),
        ({"id": IDS, "g": G, "z": pa.array([[1.0], *[[1.0, 2.0, 3.0]] * 3, [1.0], [1.0]])}, "unequal numbers"),
        ({"id": IDS, "g": G, "z": pa.array([None, *[[1.0, 2.0]] * 5])}, "1 rows of .* have no features"),
        ({"id": IDS, "g": G, "a": as_lists(Z), "b": as_lists(Z)}, "several columns of features"),
        ({"id": IDS, "g": ["x"] * 6, "f": Z[:, 0]}, "cannot read"),
        ({"id": [], "g": pa.array([], pa.float64()), "f": pa.array([], pa.float64())}, "no rows"),
    ],
)
def test_what_is_no_table_of_features_is_refused(tmp_path, columns, message):
    path = write(tmp_path / "f.parquet", **columns)
    with pytest.raises(ValueError, match=message) as raised:
        read_features(path)
    assert "\n" not in str(raised.value)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "f.parquet").write_bytes(b"PAR1 nothing here PAR1")
    with pytest.raises(ValueError, match="cannot read"):
        read_features(tmp_path / "f.parquet")


def test_a_file_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "f.parquet", id=IDS, g=G, f=Z[:, 0])
    monkeypatch.setattr("duet.data.features.LARGEST", 10)
    with pytest.raises(ValueError, match="write fewer views"):
        read_features(path)
