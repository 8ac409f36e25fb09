"""Checkpoints hold tensors and plain values, come back equal, and cannot run code."""

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet.model.checkpoint import as_tensor_like, read_checkpoint, write_checkpoint

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(state=st.dictionaries(st.text(max_size=4), plain, max_size=4))
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, state):
    path = tmp_path_factory.mktemp("c") / "c.safetensors"
    write_checkpoint(state, path)
    assert read_checkpoint(path) == state


def test_tensors_keep_value_type_and_place(tmp_path):
    shared = torch.arange(6).view(2, 3)
    state = {"a": {0: shared, 1: [shared.T, torch.tensor(True)]}, "b": torch.rand(2, dtype=torch.float64)}
    write_checkpoint(state, tmp_path / "c")
    back = read_checkpoint(tmp_path / "c")
    assert torch.equal(back["a"][0], shared)
    assert torch.equal(back["a"][1][0], shared.T)
    assert back["a"][1][1].dtype == torch.bool
    assert torch.equal(back["b"], state["b"])


def test_the_same_state_gives_the_same_bytes(tmp_path):
    state = {"x": torch.arange(5.0), "n": [1, 2.5, "three"]}
    for name in ("a", "b"):
        write_checkpoint(state, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_objects_are_not_written(tmp_path):
    with pytest.raises(TypeError, match="cannot hold"):
        write_checkpoint({"x": object()}, tmp_path / "c")


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_a_strangers_file_cannot_run_code(tmp_path, capsys):
    for content in (pickle.dumps(Evil()), b"", b"\x00" * 64, b'\x10\x00\x00\x00\x00\x00\x00\x00{"__metadata__"'):
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(ValueError, match="cannot read the checkpoint"):
            read_checkpoint(tmp_path / "c")
    assert "never" not in capsys.readouterr().out


def test_memory_order_follows_the_parameter():
    like = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    value = torch.rand(2, 3, 4, 4)
    moved = as_tensor_like(value, like)
    assert moved.stride() == like.stride()
    assert torch.equal(moved, value)
    assert as_tensor_like(torch.tensor(3.0), like).ndim == 0
