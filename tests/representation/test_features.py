"""A representation can be cut, moved, saved and read again."""

import json
import os

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from duet.representation import Axis, Concatenated, FittedAction, Flat, Gaussian, Representation, Table, VonMises

ANGLE, LIGHT = Axis("angle", 8, VonMises(0.2)), Axis("light", 4, Gaussian(0.3))


def make(layout=None, n=6, relative=False):
    layout = layout or Table(4, ANGLE)
    z = torch.randn(n, layout.dim, generator=torch.Generator().manual_seed(0))
    pairs = torch.randn(200, layout.dim)
    fitted = {"odd/name": FittedAction.fit(pairs, pairs, torch.rand(200), cyclic=True, order=1)}
    return Representation(z, layout, fitted, relative)


def test_rows_are_chosen_by_number_slice_list_and_mask():
    rep = make()
    for rows, expected in [
        (2, [2]),
        (-1, [5]),
        (np.int64(3), [3]),
        (torch.tensor(1), [1]),
        (slice(1, 5, 2), [1, 3]),
        ([4, 0], [4, 0]),
        (np.array([1, 2]), [1, 2]),
        (torch.arange(6) > 3, [4, 5]),
        (np.arange(6) > 3, [4, 5]),
    ]:
        assert torch.equal(rep[rows].flat, rep.flat[expected])
        assert rep[rows].layout is rep.layout


def test_beyond_the_end_there_is_nothing_and_a_loop_ends():
    rep = make()
    assert [len(one) for one in rep] == [1] * 6
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            rep[wrong]
    with pytest.raises(IndexError, match="one number"):
        rep[[[1, 2]]]


def test_the_fitted_actions_follow_to_the_device_but_keep_their_precision():
    rep = make()
    assert rep.to(torch.float16).fitted["odd/name"].mean.dtype == torch.float64
    away = rep.to("meta")
    assert away.flat.device.type == away.fitted["odd/name"].mean.device.type == "meta"
    assert rep.fitted["odd/name"].mean.device.type == "cpu"


def test_features_come_as_numpy_in_any_precision():
    rep = make()
    assert np.array_equal(rep.numpy(), rep.flat.numpy())
    assert rep.to(torch.bfloat16).numpy().dtype == np.float32
    assert rep.to(torch.float64).numpy().dtype == np.float64


def test_of_several_fitted_actions_one_is_named():
    rep = make()
    several = Representation(rep.flat, rep.layout, {**rep.fitted, "more": rep.fitted["odd/name"]})
    with pytest.raises(ValueError, match="say which axis; this model has fitted actions of odd/name, more"):
        several.shift(by=0.1, action="fitted")
    assert torch.equal(several.shift("more", by=0.1, action="fitted").flat, rep.shift(by=0.1, action="fitted").flat)


@pytest.mark.parametrize("layout", [Flat(5), Table(4, ANGLE), Concatenated(2, [ANGLE, LIGHT])])
def test_a_saved_representation_comes_back_whole(layout, tmp_path):
    rep = make(layout, relative=True)
    rep.save(tmp_path / "rep.safetensors")
    again = Representation.load(tmp_path / "rep.safetensors")
    assert torch.equal(again.flat, rep.flat)
    assert again.layout == layout
    assert again.relative
    moved = [r.shift("odd/name", by=0.3, action="fitted").flat for r in (rep, again)]
    assert torch.equal(*moved)
    assert os.listdir(tmp_path) == ["rep.safetensors"]


def test_a_file_that_is_something_else_is_refused_in_one_line(tmp_path):
    rep = make()
    rep.save(tmp_path / "rep.safetensors")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").touch()
    save_file({"x": torch.zeros(2)}, tmp_path / "other")
    save_file(load_file(tmp_path / "rep.safetensors"), tmp_path / "bare")
    header = {"format": 1, "layout": {"kind": "flat", "dim": 9}, "fitted": [], "relative": False}
    save_file({"flat": torch.zeros(2, 5)}, tmp_path / "wrong", {"duet.representation": json.dumps(header)})
    whole = load_file(tmp_path / "rep.safetensors")
    with safe_open(tmp_path / "rep.safetensors", framework="pt") as file:
        header = json.loads(file.metadata()["duet.representation"])
    harms = {
        "layout": (whole, {**header, "layout": []}),
        "whole-numbers": ({**whole, "flat": whole["flat"].long()}, header),
        "circle": ({**whole, "fitted.0.circle": torch.zeros(2)}, header),
        "weight": ({**whole, "fitted.0.weight": whole["fitted.0.weight"][:, :2].contiguous()}, header),
    }
    for name, (tensors, changed) in harms.items():
        save_file(tensors, tmp_path / name, {"duet.representation": json.dumps(changed)})
    save_file(whole, tmp_path / "deep", {"duet.representation": "[" * 200_000})
    for name in ("missing", "text", "empty", "other", "bare", "wrong", "deep", *harms):
        with pytest.raises(ValueError, match=name) as error:
            Representation.load(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    rep = make()
    rep.save(tmp_path / "rep.safetensors")
    before = (tmp_path / "rep.safetensors").read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make(n=3).save(tmp_path / "rep.safetensors")
    assert (tmp_path / "rep.safetensors").read_bytes() == before
    assert os.listdir(tmp_path) == ["rep.safetensors"]
