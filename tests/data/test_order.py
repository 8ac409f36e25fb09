"""The order of an epoch: any batch of any rank, without the ones before."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duet.data.order import count_batches, epoch_batches, epoch_order
from duet.error import DuetError


def test_the_order_is_a_function_of_seed_and_epoch():
    torch.manual_seed(0)
    first = epoch_order(100, seed=1, epoch=2)
    torch.manual_seed(1)
    assert torch.equal(first, epoch_order(100, seed=1, epoch=2))
    for seed, epoch in [(2, 1), (1, 3), (12, 0)]:
        assert not torch.equal(first, epoch_order(100, seed, epoch))


def test_the_order_is_fixed_for_ever():
    """A run resumed under a later version must go on where it stopped."""
    assert epoch_order(10, seed=0, epoch=0).tolist() == [1, 8, 2, 3, 7, 5, 0, 6, 4, 9]


def test_drawing_an_order_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    epoch_order(100, 0, 0)
    assert torch.equal(state, torch.get_rng_state())


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 4), st.booleans(), st.integers(0, 5))
def test_ranks_share_an_epoch_without_overlap(count, batch_size, world, drop_last, epoch):
    try:
        batches = count_batches(count, batch_size, world, drop_last)
    except DuetError:
        assert count < (batch_size * world if drop_last else world)
        return
    ranks = [
        epoch_batches(count, batch_size, seed=0, epoch=epoch, rank=r, world=world, drop_last=drop_last)
        for r in range(world)
    ]
    assert [len(rank) for rank in ranks] == [batches] * world
    seen = torch.cat([batch for rank in ranks for batch in rank])
    assert len(seen.unique()) == len(seen)
    assert all(1 <= len(batch) <= batch_size for rank in ranks for batch in rank)
    if drop_last:
        assert all(len(batch) == batch_size for rank in ranks for batch in rank)
    else:
        assert len(seen) > count - world


@given(st.integers(1, 4), st.integers(1, 20))
def test_ranks_joined_are_the_batch_of_one_process(world, batch_size):
    count = 3 * world * batch_size
    single = epoch_batches(count, batch_size * world, seed=5, epoch=1)
    ranks = [epoch_batches(count, batch_size, seed=5, epoch=1, rank=r, world=world) for r in range(world)]
    for number, joined in enumerate(single):
        assert torch.equal(joined, torch.cat([rank[number] for rank in ranks]))


@given(st.integers(0, 7))
def test_resuming_gives_the_rest_of_the_unbroken_order(start):
    unbroken = epoch_batches(70, 10, seed=3, epoch=4)
    resumed = epoch_batches(70, 10, seed=3, epoch=4, start=start)
    assert [b.tolist() for b in resumed] == [b.tolist() for b in unbroken[start:]]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((100, 128), "100 images make no batch of 128: use a --batch-size of at most 100"),
        ((100, 64, 2), "no batch of 64 for each of 2 processes: use a --batch-size of at most 50"),
        ((2, 1, 4), "2 images are too few for 4 processes: use at most 2"),
        ((10, 0), "start at 1"),
    ],
)
def test_a_set_too_small_says_what_works(arguments, line):
    with pytest.raises(DuetError, match=line):
        count_batches(*arguments)
    assert count_batches(100, 100) == count_batches(100, 50, 2) == 1


def test_impossible_ranks_and_starts_are_refused():
    with pytest.raises(DuetError, match="rank 2 is not one of 2"):
        epoch_batches(10, 2, seed=0, epoch=0, rank=2, world=2)
    with pytest.raises(DuetError, match="batch 6 is not in an epoch of 5"):
        epoch_batches(10, 2, seed=0, epoch=0, start=6)
