"""The map of distances between transformed images and moved features."""

import math
from dataclasses import replace

import pytest
import torch

from duet.evaluation import as_subject
from duet.evaluation.equivariance import (
    Equivariance,
    diagonal_contrast,
    distance_map,
    distance_maps,
    mean_square_distance,
    row_minimum,
    share_within,
)
from duet.groups import find_group
from duet.model import fit_action
from duet.representation import (
    Axis,
    Concatenated,
    FittedAction,
    Gaussian,
    Joint,
    Prescribed,
    Table,
    VonMises,
    act,
    shift,
)

from .conftest import BRIGHTNESS, SMALL, make_context, read_brightness


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_distances_by_hand():
    left, right = torch.tensor([[[0.0, 0.0], [1.0, 1.0]]]), torch.tensor([[[3.0, 4.0], [1.0, 1.0]]])
    torch.testing.assert_close(distance_map(left, right), torch.tensor([[12.5]], dtype=torch.float64))


def test_distances_are_those_of_all_differences():
    left, right = 100 + draw(5, 7, 11), 100 + draw(6, 7, 11, seed=1)
    slow = (left.double().unsqueeze(1) - right.double().unsqueeze(0)).square().sum(3).mean(2)
    torch.testing.assert_close(distance_map(left, right), slow, rtol=1e-4, atol=1e-4)


def test_the_map_of_chunks_is_the_map_of_all(perfect, monkeypatch):
    context, _ = perfect
    sweep = context.sweep()
    action = Prescribed(BRIGHTNESS, BRIGHTNESS.axes[0])
    whole = distance_maps(sweep, action, BRIGHTNESS, BRIGHTNESS.axes[0])
    monkeypatch.setattr("duet.evaluation.equivariance.CHUNK", 16 * 24 * 10)  # five images at a time
    parts = distance_maps(sweep, action, BRIGHTNESS, BRIGHTNESS.axes[0])
    for where in ("z", "logits"):
        torch.testing.assert_close(whole[where], parts[where], rtol=1e-4, atol=1e-4)


AXES = (Axis("rot360", 8, VonMises(0.2)), Axis("brightness", 4, Gaussian(0.3)))


@pytest.mark.parametrize("layout", [Table(3, AXES[0]), Joint(2, AXES), Concatenated(3, AXES)])
def test_the_prescribed_orbit_is_act_at_every_g(layout):
    axis, group = layout.axes[-1], find_group(layout.axes[-1].name)
    z, g = draw(6, layout.dim), torch.linspace(0, 1, 5)
    expected = torch.stack([act(z, layout, axis, float(value)) for value in g])
    torch.testing.assert_close(Prescribed(layout, axis).orbit(z, group.identity, g), expected)


def test_a_relative_orbit_shifts_by_the_difference_to_the_identity():
    layout, group = Table(3, AXES[0]), find_group("rot360")
    z, g = draw(6, layout.dim), torch.tensor([0.25, 0.5, 0.75])
    expected = torch.stack([shift(z, layout, AXES[0], by) for by in (-0.25, 0.0, 0.25)])
    action = Prescribed(layout, AXES[0], relative=True)
    torch.testing.assert_close(action.orbit(z, group.identity, g), expected)


def test_the_fitted_orbit_is_the_action_at_every_step():
    images = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    action = fit_action(lambda x: x.flatten(1), images, find_group("rot360"), pairs=200)
    z, by = draw(6, 16), torch.tensor([-0.2, 0.0, 0.4])
    expected = torch.stack([action(z, float(step)) for step in by])
    torch.testing.assert_close(action.orbit(z, 0.5, 0.5 + by), expected, rtol=1e-4, atol=1e-4)
    assert action.weight.dtype == torch.float64  # the subject's own action is left as it was


def test_row_minima_by_hand():
    table = torch.tensor([[1.0, 2.0, 3.0], [2.0, 2.5, 1.0], [0.0, 1.0, 1.0]])
    g = torch.tensor([0.0, 1 / 3, 2 / 3])
    found = row_minimum(table, g)
    torch.testing.assert_close(found, torch.tensor([0.0, 2 / 3, 0.0]))
    # Rows 0, 1, 2 miss by 0, 1/3 and 2/3; on the circle the last is 1/3 too.
    assert share_within(found, g, cyclic=False, window=0.1) == pytest.approx(1 / 3)
    assert share_within(found, g, cyclic=False, window=1 / 3) == pytest.approx(2 / 3)
    assert share_within(found, g, cyclic=True, window=1 / 3) == pytest.approx(1)


def test_contrast_by_hand():
    assert diagonal_contrast(torch.tensor([[0.0, 2.0], [2.0, 0.0]])) == 1.0
    assert diagonal_contrast(torch.ones(3, 3)) == 0.0
    assert diagonal_contrast(torch.tensor([[1.0, 3.0], [3.0, 1.0]])) == 0.5
    assert diagonal_contrast(torch.zeros(3, 3)) == 0.0


def test_the_distance_of_two_images_is_that_of_all_pairs():
    z = draw(9, 4)
    pairs = [(z[i] - z[j]).square().sum() for i in range(9) for j in range(9) if i != j]
    assert mean_square_distance(z) == pytest.approx(float(torch.stack(pairs).mean()), rel=1e-5)


def test_an_exact_table_has_an_empty_diagonal(perfect):
    context, _ = perfect
    result = Equivariance().measure(context)
    assert result.scalars["error_prescribed"] < 1e-3
    assert result.scalars["row_minimum_within_one_bin"] == 1.0
    assert result.scalars["row_minimum_within_one_bin_logits"] == 1.0
    assert result.scalars["diagonal_contrast"] > 0.99
    assert result.scalars["error_prescribed_untouched"] < 1e-3
    assert result.scalars["sensitivity_untouched"] > 1
    assert result.arrays["map"].shape == (16, 16)
    shown = {"error_prescribed", "error_fitted", "error_fitted_other_classes", "sensitivity"}
    shown |= {"row_minimum_within_one_bin"}
    assert set(Equivariance().summary(result)) == shown  # the guard stands with the errors, always


def test_errors_are_those_of_a_slow_loop(perfect):
    context, _ = perfect
    orbit, action = context.orbit(), context.fitted
    result = Equivariance().measure(context)
    left = still = 0.0
    for i, start in enumerate(orbit.start.tolist()):
        for goal in range(len(orbit.g)):
            if goal != start:
                z, reached = orbit.z[start, i], orbit.z[goal, i]
                by = float(orbit.g[goal, i] - orbit.g[start, i])
                left += float((action(z.unsqueeze(0), by)[0] - reached).square().sum())
                still += float((z - reached).square().sum())
    assert result.scalars["error_fitted"] == pytest.approx(left / still, rel=1e-3)
    low, high = result.intervals["error_fitted"]
    assert low <= result.scalars["error_fitted"] <= high


def test_from_untouched_images_an_action_must_explain_sharpness_too():
    # The features see how rough an image is and nothing else; turning makes it smooth, whatever the angle.
    images = torch.rand(120, 1, 12, 12, generator=torch.Generator().manual_seed(0))

    def roughness(x):
        rough = (x[..., 1:, :] - x[..., :-1, :]).square().mean((1, 2, 3))
        return torch.stack([rough, rough.sqrt()], 1)

    context = make_context(as_subject(roughness, "rot360", images[:2]), images, find_group("rot360"))
    scalars = Equivariance().measure(context).scalars
    assert scalars["sensitivity_untouched"] > 3 * scalars["sensitivity"]


def test_the_map_costs_the_sweep_and_no_image_more(perfect):
    context, counter = perfect
    _ = context.fitted  # fitted once, for whoever needs it
    assert counter.images == 40 * 4
    result = Equivariance().measure(context)
    # 16 elements of 12 images from turned starts; 16 more for the paper's map, and the 12 untouched images: the grid
    # of 16 does not hold the identity. Actions for other classes are fitted on the same views.
    assert counter.images - 40 * 4 == (16 + 17) * 12
    assert {"map", "map_logits", "map_fitted", "map_logits_fitted"} <= set(result.arrays)
    Equivariance().measure(context)
    assert counter.images - 40 * 4 == (16 + 17) * 12


def test_a_wrong_action_is_caught(perfect):
    context, _ = perfect
    mirrored = replace(
        context,
        subject=replace(context.subject, function=lambda x: read_brightness(x).reshape(-1, 3, 8).flip(2).flatten(1)),
        _cache={},
    )
    scalars = Equivariance().measure(mirrored).scalars
    assert scalars["error_prescribed"] > 1
    assert scalars["row_minimum_within_one_bin"] < 0.5


def test_pixels_under_quarter_turns_are_a_permutation(pixels):
    result = Equivariance().measure(pixels)
    assert result.scalars["error_fitted"] < 1e-3
    assert "error_prescribed" not in result.scalars
    assert result.scalars["row_minimum_within_one_bin_fitted"] == 1.0
    assert result.arrays["true_elements"].tolist() == [0.125, 0.375, 0.625, 0.875]
    # The map itself also shows what lies between the elements: here they are on the grid of 16.
    assert result.arrays["map_fitted"].shape == (16, 16)


def test_no_action_has_error_one():
    """With the identity as the action, the error is 1 by construction."""
    images = torch.rand(400, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    z = torch.randn(4, 16)
    idle = FittedAction.fit(z, z, torch.rand(4), cyclic=True, order=0, ridge=1.0)
    subject = as_subject(torch.nn.Flatten(), "rot360", images[:2])
    context = make_context(subject, images, find_group("rot360"), sizes=SMALL)
    context._cache["actions", "rot360"] = {"fitted": idle}
    result = Equivariance().measure(context)
    assert result.scalars["error_fitted"] == pytest.approx(1, abs=1e-4)


def test_collapse_shows(collapsed):
    scalars = Equivariance().measure(collapsed).scalars
    assert scalars["sensitivity"] == 0
    assert math.isnan(scalars["error_fitted"])
    assert scalars["diagonal_contrast_fitted"] == 0


@pytest.mark.parametrize(("features", "share"), [("even", 0.19), ("jump", 1.0)])
def test_the_last_tenth_of_the_fading_tells_a_jump_from_an_even_change(features, share):
    def read(images):
        colour = (images.amax(1) - images.amin(1)).mean((1, 2)).unsqueeze(1)
        moved = colour if features == "even" else (colour < 1e-4).float()
        return torch.cat([moved, torch.ones_like(moved)], 1)

    images = torch.rand(40, 3, 4, 4, generator=torch.Generator().manual_seed(0)) * 0.5 + 0.2
    group = find_group("grayscale")
    context = make_context(as_subject(read, "grayscale", images[:2]), images, group, sizes=replace(SMALL, sweep=41))
    assert Equivariance().measure(context).scalars["last_tenth"] == pytest.approx(share, abs=0.02)


def test_only_a_finite_group_with_two_ends_has_a_last_tenth(perfect, pixels):
    assert "last_tenth" not in Equivariance().measure(perfect[0]).scalars
    assert "last_tenth" not in Equivariance().measure(pixels).scalars
