"""Layouts: what is summed, what is averaged, and what is refused."""

import json

import pytest
import torch

from duet.representation import Axis, Concatenated, Flat, Gaussian, Joint, Table, VonMises, layout_from_dict

A, B = Axis("angle", 8, VonMises(0.2)), Axis("light", 5, Gaussian(0.3))
LAYOUTS = [
    Table(6, A),
    Table(6, B),
    Joint(6, [A, B]),
    Joint(6, [B, A]),
    Concatenated(6, [A, B]),
    Concatenated(3, [B, A]),
]


def features(layout, rows=4, dtype=torch.float64):
    return torch.randn(rows, layout.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def test_a_table_sums_columns_into_content_and_averages_rows_into_logits():
    table = Table(6, A)
    z = features(table)
    assert table.dim == 48
    torch.testing.assert_close(table.content(z), z.view(4, 6, 8).sum(2))
    torch.testing.assert_close(table.group_logits(z, "angle"), z.view(4, 6, 8).mean(1))


def test_a_joint_layout_marginalises_all_that_is_not_asked_for():
    joint = Joint(6, [A, B])
    z = features(joint)
    cube = z.view(4, 6, 8, 5)
    assert joint.dim == 240
    torch.testing.assert_close(joint.content(z), cube.sum((2, 3)))
    torch.testing.assert_close(joint.group_logits(z, A), cube.mean((1, 3)))
    torch.testing.assert_close(joint.group_logits(z, "light"), cube.mean((1, 2)))


def test_a_concatenated_layout_keeps_the_columns_of_the_first_axis_first():
    layout = Concatenated(6, [A, B])
    z = features(layout)
    table = z.view(4, 6, 13)
    assert layout.dim == 78
    torch.testing.assert_close(layout.content(z), torch.cat([table[..., :8].sum(2), table[..., 8:].sum(2)], 1))
    torch.testing.assert_close(layout.group_logits(z, "angle"), table[..., :8].mean(1))
    torch.testing.assert_close(layout.group_logits(z, "light"), table[..., 8:].mean(1))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.kind} {[a.name for a in layout.axes]}")
@pytest.mark.parametrize("by", [-3, 0, 1, 4])
def test_a_roll_moves_the_columns_of_one_axis_and_nothing_else(layout, by):
    z = features(layout)
    for axis in layout.axes:
        rolled = layout.roll(z, axis, by)
        torch.testing.assert_close(layout.group_logits(rolled, axis), layout.group_logits(z, axis).roll(by, 1))
        torch.testing.assert_close(layout.content(rolled), layout.content(z))
        for other in layout.axes:
            if other != axis:
                torch.testing.assert_close(layout.group_logits(rolled, other), layout.group_logits(z, other))
        assert torch.equal(layout.roll(rolled, axis.name, -by), z)


def test_a_roll_takes_every_number_where_its_column_goes():
    joint, pair = Joint(2, [A, B]), Concatenated(2, [B, A])
    cube, table = features(joint).view(4, 2, 8, 5), features(pair).view(4, 2, 13)
    for row, column in ((0, 0), (1, 6), (1, 7)):
        goal = (column + 3) % 8
        rolled = joint.roll(cube.flatten(1), "angle", 3).view_as(cube)
        assert torch.equal(rolled[:, row, goal], cube[:, row, column])
        rolled = pair.roll(table.flatten(1), "angle", 3).view_as(table)
        assert torch.equal(rolled[:, row, 5 + goal], table[:, row, 5 + column])
        assert torch.equal(rolled[..., :5], table[..., :5])


def test_a_flat_layout_is_all_content():
    flat = Flat(16)
    z = features(flat)
    assert flat.dim == 16
    assert flat.axes == ()
    assert torch.equal(flat.content(z), z)
    with pytest.raises(ValueError, match="no axis 'angle'; this model has none"):
        flat.group_logits(z, "angle")
    with pytest.raises(ValueError, match="no axis 'angle'; this model has none"):
        flat.roll(z, "angle", 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_adding_to_columns_moves_their_logits_and_no_other(layout):
    z = features(layout)
    for axis in layout.axes:
        offset = torch.randn(4, axis.bins, dtype=torch.float64)
        moved = layout.add(z, axis, offset)
        assert moved.shape == z.shape
        torch.testing.assert_close(layout.group_logits(moved, axis), layout.group_logits(z, axis) + offset)
        centred = offset - offset.mean(-1, keepdim=True)
        moved = layout.add(z, axis.name, centred)
        torch.testing.assert_close(layout.content(moved), layout.content(z))
        for other in layout.axes:
            if other != axis:
                torch.testing.assert_close(layout.group_logits(moved, other), layout.group_logits(z, other))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_take_views_empty_batches_and_half_precision(layout):
    z = features(layout, rows=8)
    strided = z.T.contiguous().T[::2]
    torch.testing.assert_close(layout.content(strided), layout.content(z[::2]))
    assert layout.content(z[:0]).shape[0] == 0
    for axis in layout.axes:
        torch.testing.assert_close(layout.group_logits(strided, axis), layout.group_logits(z[::2], axis))
        assert layout.group_logits(z[:0], axis).shape == (0, axis.bins)
        half = z.to(torch.bfloat16)
        torch.testing.assert_close(layout.group_logits(half, axis), layout.group_logits(half.float(), axis))


def test_dimensions_that_do_not_divide_are_refused_with_the_nearest_that_do():
    assert Table.from_dim(512, A) == Table(64, A)
    assert Joint.from_dim(240, [A, B]) == Joint(6, [A, B])
    assert Concatenated.from_dim(78, [A, B]) == Concatenated(6, [A, B])
    with pytest.raises(ValueError, match=r"510 features do not divide into 8 columns; .* \[504, 512\]"):
        Table.from_dim(510, A)
    with pytest.raises(ValueError, match=r"40 columns; the nearest that do: \[480, 520\]"):
        Joint.from_dim(512, [A, B])
    with pytest.raises(ValueError, match=r"13 columns; the nearest that do: \[507, 520\]"):
        Concatenated.from_dim(512, [A, B])
    with pytest.raises(ValueError, match=r"the nearest that do: \[8\]"):
        Table.from_dim(4, A)


def test_mistakes_are_named():
    layout = Joint(6, [A, B])
    with pytest.raises(ValueError, match="no axis 'hue'; this model has angle, light"):
        layout.group_logits(features(layout), "hue")
    with pytest.raises(ValueError, match="axis 'angle' has other bins or another target"):
        layout.find(Axis("angle", 4, VonMises(0.2)))
    with pytest.raises(ValueError, match=r"features \(B, 240\), not \(4, 239\)"):
        layout.content(torch.zeros(4, 239))
    with pytest.raises(ValueError, match="no two of one name"):
        Joint(6, [A, A])
    with pytest.raises(ValueError, match="rows of content"):
        Table(0, A)
    with pytest.raises(ValueError, match="at least 2 bins"):
        Axis("angle", 1, VonMises(0.2))


@pytest.mark.parametrize("layout", [*LAYOUTS, Flat(7)])
def test_a_layout_survives_json(layout):
    again = layout_from_dict(json.loads(json.dumps(layout.to_dict())))
    assert again == layout
    assert type(again) is type(layout)
    assert hash(again) == hash(layout)


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="no layout 'cube'"):
        layout_from_dict({"kind": "cube"})
    assert Table(6, A) != Joint(6, [A])
