"""Ranks of the right copy."""

from dataclasses import replace

import pytest
import torch

from duet.data import MemoryImages
from duet.evaluation import Context, Sizes
from duet.evaluation.context import Orbit
from duet.evaluation.retrieval import Retrieval, _copies, distances, draw_queries, score
from duet.groups import find_group
from duet.representation import Action


def test_ranks_by_hand():
    distance = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    found = score(distance, torch.tensor([0, 1, 2]))
    assert found.hit1.tolist() == [1, 0, 0]
    assert found.reciprocal.tolist() == pytest.approx([1, 1 / 2, 1 / 3])
    assert found.nearest.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_hit_at_five_counts_the_fifth_and_not_the_sixth():
    distance = torch.arange(8.0).expand(2, 8)
    assert score(distance, torch.tensor([4, 5])).hit5.tolist() == [1, 0]


def test_equally_near_copies_come_in_random_order():
    # One is nearer, three are equal: the right one is second, third or fourth, one in three each.
    found = score(torch.tensor([[0.0, 1.0, 1.0, 1.0]]), torch.tensor([2]))
    assert float(found.hit1) == 0
    assert float(found.reciprocal) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    tied = score(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([0]))
    assert float(tied.hit1) == 0.5
    assert tied.nearest.tolist() == [[0.5, 0.5, 0]]


class Adding(Action):
    """T_by z = z + by."""

    def act(self, z, by):
        return z + by.unsqueeze(1)


def test_distances_go_to_the_copies_of_the_same_image():
    z = torch.tensor([[[0.0], [10.0]], [[1.0], [20.0]]])  # two elements of two images
    g = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    orbit = Orbit(find_group("brightness"), g, z, torch.zeros(2, dtype=torch.long))
    source, goal = torch.tensor([[0], [1]]), torch.tensor([[1], [0]])
    found = distances(orbit, source, goal, Adding())
    # Image 0 moves from 0 to 0 + 1; image 1 from 20 to 20 - 1.
    assert found.tolist() == [[1.0, 0.0], [9.0, 1.0]]


def test_an_exact_action_hits_always(perfect):
    context, _ = perfect
    scalars = Retrieval().measure(context).scalars
    assert scalars["hit1_prescribed"] == scalars["mrr_prescribed"] == 1.0
    assert scalars["parameter_error_factor_prescribed"] == 0
    assert scalars["chance_hit1"] == pytest.approx(1 / 16)
    assert scalars["chance_hit5"] == pytest.approx(5 / 16)
    assert scalars["chance_mrr"] == pytest.approx(sum(1 / k for k in range(1, 17)) / 16)


def test_the_copies_of_a_finite_group_are_its_elements(pixels):
    scalars = Retrieval().measure(pixels).scalars
    assert scalars["hit1_fitted"] == 1.0
    assert scalars["chance_hit1"] == 0.25
    assert "hit5_fitted" not in scalars


def test_collapse_scores_as_chance_does(collapsed):
    scalars = Retrieval().measure(collapsed).scalars
    assert scalars["hit1_fitted"] == pytest.approx(scalars["chance_hit1"])
    assert scalars["mrr_fitted"] == pytest.approx(scalars["chance_mrr"])
    assert scalars["parameter_error_degrees_fitted"] == pytest.approx(
        scalars["chance_parameter_error_degrees"], rel=1e-4
    )


def test_a_relative_reference_moves_by_the_difference(perfect):
    context, _ = perfect
    relative = replace(context, subject=replace(context.subject, relative=True), _cache={})
    assert Retrieval().measure(relative).scalars["hit1_prescribed"] == 1.0


@pytest.mark.parametrize(
    ("name", "kept"), [("rot360", [0.0, 0.25, 0.5, 0.75]), ("brightness", [0.0, 0.25, 0.625, 0.875])]
)
def test_copies_lie_evenly_apart(name, kept):
    g = (torch.arange(8) / 8).unsqueeze(1).expand(8, 2)
    orbit = Orbit(find_group(name), g, torch.zeros(8, 2, 3), torch.tensor([0, 7]))
    few = _copies(orbit, 4)
    assert few.g[:, 0].tolist() == kept
    assert bool((few.start < 4).all())
    assert _copies(orbit, 50) is orbit


def test_every_image_starts_somewhere_else_and_its_copies_go_around(collapsed):
    orbit = collapsed.orbit()
    assert orbit.g.shape == (16, 12)
    assert len(set(orbit.g[0].tolist())) == 12
    steps = orbit.group.domain.distance(orbit.g[1:], orbit.g[:-1])
    torch.testing.assert_close(steps, torch.full_like(steps, 1 / 16))
    assert len(set(orbit.start.tolist())) > 3
    assert collapsed.orbit() is orbit


def test_queries_never_stay_where_they_are():
    source, goal = draw_queries(5, 200, 3, torch.Generator().manual_seed(0))
    assert bool((source != goal).all())
    assert set(goal.flatten().tolist()) == set(range(5))


def test_actions_of_other_classes_are_tested_on_every_image_once(pixels):
    found = pixels.foreign_actions
    assert sorted(torch.cat([images for images, _ in found]).tolist()) == list(range(12))
    for images, actions in found:
        assert len(set(pixels.image_labels[images].tolist())) == 1  # of two classes
        assert set(actions) == {"fitted", "spectral"}
    assert Retrieval().measure(pixels).scalars["hit1_fitted_other_classes"] > 0.9


def test_without_labels_there_are_no_other_classes(pixels):
    train = MemoryImages("made", "train", pixels.train.tensors()[0])
    assert replace(pixels, train=train, _cache={}).foreign_actions == []


def test_more_queries_are_more_rows(perfect):
    context, _ = perfect
    more: Context = replace(context, sizes=Sizes(images=12, sweep=16, queries=5, probe=64), _cache={})
    assert Retrieval().measure(more).arrays["parameter_error_prescribed"].shape == (60,)
