"""A representation can be cut, moved, saved and read again."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from duet.representation import (
    Axis,
    Concatenated,
    FittedAction,
    Flat,
    Gaussian,
    RawScale,
    Representation,
    Table,
    VonMises,
)

ANGLE, LIGHT = Axis("angle", 8, VonMises(0.2)), Axis("light", 4, Gaussian(0.3))


def make(layout=None, n=6, relative=False):
    layout = layout or Table(4, ANGLE)
    z = torch.randn(n, layout.dim, generator=torch.Generator().manual_seed(0))
    pairs = torch.randn(200, layout.dim)
    action = FittedAction.fit(pairs, pairs, torch.rand(200), cyclic=True, order=1)
    scales = {"angle": RawScale("degrees", -180.0, 180.0)}
    return Representation(z, layout, {"odd/name": {"fitted": action}}, relative, scales)


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
    assert rep.to(torch.float16).actions["odd/name"]["fitted"].mean.dtype == torch.float64
    away = rep.to("meta")
    assert away.flat.device.type == away.actions["odd/name"]["fitted"].mean.device.type == "meta"
    assert rep.actions["odd/name"]["fitted"].mean.device.type == "cpu"


def test_features_come_as_numpy_in_any_precision():
    rep = make()
    assert np.array_equal(rep.numpy(), rep.flat.numpy())
    assert rep.to(torch.bfloat16).numpy().dtype == np.float32
    assert rep.to(torch.float64).numpy().dtype == np.float64


def test_of_several_fitted_actions_one_is_named():
    rep = make()
    several = Representation(rep.flat, rep.layout, {**rep.actions, "more": rep.actions["odd/name"]})
    with pytest.raises(ValueError, match="say which axis; this model has fitted actions of odd/name, more"):
        several.shift(by=0.1, action="fitted")
    assert torch.equal(several.shift("more", by=0.1, action="fitted").flat, rep.shift(by=0.1, action="fitted").flat)


def test_amounts_are_in_g_or_in_the_groups_own_unit():
    rep = make()
    assert torch.equal(rep.shift(by=0.25).flat, rep.shift(degrees=90).flat)
    assert torch.equal(rep.act(to=0.75).flat, rep.act(degrees=90).flat)
    assert not torch.allclose(rep.act(to=0.75).flat, rep.act(to=0.25).flat)
    for mistake in ({}, {"by": 0.1, "degrees": 9}, {"radians": 1}):
        with pytest.raises(ValueError, match=r"say how far with by= \(in g\) or degrees="):
            rep.shift(**mistake)
    with pytest.raises(ValueError, match=r"say how far with to= \(in g\) or degrees="):
        rep.act(factor=2)


def test_more_than_once_through_the_group_is_refused():
    rep = make()
    for action, axis in (("prescribed", "angle"), ("fitted", "odd/name")):
        rep.shift(axis, by=1.0, action=action)
        with pytest.raises(ValueError, match=f"at most 1, once through all of {axis}; it is 90"):
            rep.shift(axis, by=torch.full((6,), -90.0), action=action)


def test_of_a_model_of_differences_there_is_no_absolute_element():
    with pytest.raises(ValueError, match="use shift"):
        make(relative=True).act(to=0.5)


def test_an_action_that_a_model_does_not_bring_is_named():
    with pytest.raises(ValueError, match="no spectral action of 'angle'; this model has fitted, prescribed"):
        make().shift("angle", by=0.1, action="spectral")


def test_the_nearest_others_are_those_of_the_largest_cosine():
    rep = make()
    z = torch.nn.functional.normalize(rep.flat, dim=1)
    for i, (places, cosines) in enumerate(zip(*rep.nearest(k=3), strict=True)):
        by_hand = sorted((float(z[i] @ z[j]), j) for j in range(6) if j != i)[::-1][:3]
        assert places.tolist() == [j for _, j in by_hand]
        assert cosines.tolist() == pytest.approx([c for c, _ in by_hand], abs=1e-6)
    assert not torch.equal(rep.nearest(5).place, rep.nearest(5, space="content").place)
    for wrong in (0, 6):
        with pytest.raises(ValueError, match=f"1 to 5 neighbours each, not {wrong}"):
            rep.nearest(wrong)


def test_a_marginal_is_drawn_with_what_was_recovered():
    rep = make()
    rep = replace(rep, flat=rep.act(to=rep.recover().g).flat)  # as sharp as the target
    (axes,) = rep.plot(2).axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx(rep.marginal()[2].tolist(), abs=1e-6)
    value = -180 + 360 * float(rep.recover().g[2])
    assert f"{abs(value):.1f}" in axes.get_title()


def test_a_flat_marginal_is_drawn_as_unknown():
    rep = replace(make(), flat=torch.zeros(6, 32))
    (axes,) = rep.plot(2).axes
    assert axes.get_title() == "recovered: unknown"
    assert not axes.lines


@pytest.mark.parametrize("layout", [Flat(5), Table(4, ANGLE), Concatenated(2, [ANGLE, LIGHT])])
def test_a_saved_representation_comes_back_whole(layout, tmp_path):
    rep = make(layout, relative=True)
    rep.save(tmp_path / "rep.safetensors")
    again = Representation.load(tmp_path / "rep.safetensors")
    assert torch.equal(again.flat, rep.flat)
    assert again.layout == layout
    assert again.relative
    assert again.scales == rep.scales
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
    header = {"format": 2, "layout": {"kind": "flat", "dim": 9}, "actions": [], "relative": False, "scales": {}}
    save_file({"flat": torch.zeros(2, 5)}, tmp_path / "wrong", {"duet.representation": json.dumps(header)})
    whole = load_file(tmp_path / "rep.safetensors")
    with safe_open(tmp_path / "rep.safetensors", framework="pt") as file:
        header = json.loads(file.metadata()["duet.representation"])
    weight = "action.odd/name.fitted.weight"
    harms = {
        "layout": (whole, {**header, "layout": []}),
        "whole-numbers": ({**whole, "flat": whole["flat"].long()}, header),
        "circle": ({**whole, "action.odd/name.fitted.circle": torch.zeros(2)}, header),
        "weight": ({**whole, weight: whole[weight][:, :2].contiguous()}, header),
        "kind": (whole, {**header, "actions": [["odd/name", "pickled"]]}),
        "scales": (whole, {**header, "scales": {"angle": ["degrees"]}}),
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


@pytest.mark.parametrize("to", [1.5, -0.2, float("nan")])
def test_elements_that_there_are_not_are_refused(to):
    rep = Representation(torch.randn(3, 16), Table(2, Axis("rot360", 8, VonMises(0.2))))
    with pytest.raises(ValueError, match="from 0 to 1"):
        rep.act(to=to)
    with pytest.raises(ValueError, match="at most 1"):
        rep.shift(by=float("nan"))
    with pytest.raises(ValueError, match="one a sample"):
        rep.shift(by=torch.rand(2))
