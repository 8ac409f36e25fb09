"""Results on disk."""

import json
import math

import numpy as np
import pytest

from duet.evaluation import Result, difference

RESULT = Result(
    "recovery", {"r2": 0.5, "lost": math.nan}, {"map": np.arange(6.0).reshape(2, 3)}, {"group": "rot360", "seed": 3}
)


def test_what_was_saved_is_loaded(tmp_path):
    found = Result.load(RESULT.save(tmp_path))
    assert found.name == "recovery"
    assert found.scalars["r2"] == 0.5
    assert math.isnan(found.scalars["lost"])
    assert found.provenance == {"group": "rot360", "seed": 3}
    np.testing.assert_array_equal(found.arrays["map"], RESULT.arrays["map"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recovery.json", "recovery.npz"]


def test_the_same_result_gives_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        RESULT.save(tmp_path / folder)
    for name in ("recovery.json", "recovery.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_json_is_plain_json(tmp_path):
    def refuse(word):
        raise AssertionError(word)

    plain = json.loads(RESULT.save(tmp_path).read_text(), parse_constant=refuse)
    assert plain["scalars"]["lost"] is None


def test_a_result_without_arrays(tmp_path):
    assert Result.load(Result("cost", {"a": 1.0}).save(tmp_path)).arrays == {}


def test_saving_again_replaces(tmp_path):
    RESULT.save(tmp_path)
    Result("recovery", {"r2": 0.9}, {}, {}).save(tmp_path)
    assert Result.load(tmp_path / "recovery.json").scalars == {"r2": 0.9}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recovery.json", b"{"),
        ("recovery.json", b"[]"),
        ("recovery.json", b'{"format": 99}'),
        ("recovery.json", b"[" * 200_000),
        ("recovery.json", b'{"format": 1}'),
        ("recovery.npz", b"not a zip"),
        ("recovery.npz", b""),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, name, content):
    path = RESULT.save(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="recovery") as error:
        Result.load(path)
    assert "\n" not in str(error.value)


def test_missing_files_are_refused(tmp_path):
    path = RESULT.save(tmp_path)
    path.with_suffix(".npz").unlink()
    with pytest.raises(ValueError, match=r"recovery\.npz"):
        Result.load(path)
    with pytest.raises(ValueError, match=r"other\.json"):
        Result.load(tmp_path / "other.json")


def test_arrays_of_another_evaluation_are_refused(tmp_path):
    path = RESULT.save(tmp_path)
    Result("recovery", {}, {"map": np.zeros((2, 3))}).save(tmp_path / "other")
    path.with_suffix(".npz").write_bytes((tmp_path / "other" / "recovery.npz").read_bytes())
    with pytest.raises(ValueError, match="another evaluation"):
        Result.load(path)


def test_a_failed_save_leaves_the_old_result(tmp_path):
    RESULT.save(tmp_path)
    with pytest.raises(TypeError):
        Result("recovery", {"r2": 0.0}, {}, {"group": object()}).save(tmp_path)
    assert Result.load(tmp_path / "recovery.json").scalars["r2"] == 0.5


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b"])
def test_names_are_file_names(name):
    with pytest.raises(ValueError, match="name"):
        Result(name)


def test_arrays_of_objects_are_refused():
    with pytest.raises(ValueError, match="objects"):
        Result("x", {}, {"a": np.array([object()])})


def test_the_difference_of_two_runs():
    gain = difference(Result("transfer", {"a": 0.75, "b": 1.0}), Result("transfer", {"a": 0.5, "c": 1.0}))
    assert gain.scalars == {"a": 0.25}
    with pytest.raises(ValueError, match="in common"):
        difference(Result("x", {"a": 1.0}), Result("y", {"b": 1.0}))


def test_arrays_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch):
    path = Result("recovery", {}, {"zeros": np.zeros(1_000_000)}, {}).save(tmp_path)
    assert path.with_suffix(".npz").stat().st_size < 100_000
    monkeypatch.setattr("duet.evaluation.result.LARGEST", 2**20)
    with pytest.raises(ValueError, match="more than 1 MiB"):
        Result.load(path)
