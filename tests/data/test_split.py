"""Splits and subsets: disjoint, balanced, the same every time."""

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duet.data.source import Source
from duet.data.split import balanced_subset, calibration_part, choose_split, held_out
from duet.error import DuetError

labelled = st.lists(st.integers(-1, 4), min_size=2, max_size=200).map(torch.tensor)


@given(labelled)
def test_a_fifth_is_held_out_and_every_class_gives_its_share(labels):
    held = held_out(len(labels), labels)
    assert held.sum() == max(1, round(0.2 * len(labels)))
    for label in labels.unique():
        members = labels == label
        assert abs(held[members].sum().item() - 0.2 * members.sum().item()) <= 1.5


@given(labelled)
def test_a_tenth_calibrates_and_every_class_gives_its_share(labels):
    aside = calibration_part([str(number).encode() for number in range(len(labels))], labels)
    assert aside.sum() == round(0.1 * len(labels))
    for label in labels.unique():
        members = labels == label
        assert abs(aside[members].sum().item() - 0.1 * members.sum().item()) <= 1.5
        assert not aside[members].all()


@given(labelled, st.randoms())
def test_which_images_calibrate_does_not_depend_on_their_order(labels, random):
    names = [f"image {number}".encode() for number in range(len(labels))]
    order = list(range(len(labels)))
    random.shuffle(order)
    before = calibration_part(names, labels)
    after = calibration_part([names[i] for i in order], labels[order])
    assert after.tolist() == before[order].tolist()


def test_without_labels_a_tenth_calibrates_too():
    aside = calibration_part((str(number).encode() for number in range(200)), None)
    assert aside.sum() == 20
    assert aside.nonzero().flatten()[:5].tolist() != list(range(5))  # spread over the set by the hash


def test_a_single_image_is_for_training():
    assert held_out(1, None).tolist() == [False]


@given(labelled, st.integers(0, 3), st.data())
def test_a_subset_is_as_balanced_as_the_classes_allow(labels, seed, data):
    wanted = data.draw(st.integers(1, len(labels)))
    chosen = balanced_subset(len(labels), labels, wanted, seed)
    assert len(chosen.unique()) == wanted
    counts = {label.item(): (labels[chosen] == label).sum().item() for label in labels.unique()}
    for label, count in counts.items():
        exhausted = count == (labels == label).sum().item()
        assert exhausted or count >= max(counts.values()) - 1


@given(labelled, st.integers(0, 3))
def test_a_larger_subset_contains_a_smaller_one(labels, seed):
    small = balanced_subset(len(labels), labels, len(labels) // 2, seed)
    large = balanced_subset(len(labels), labels, len(labels) - 1, seed)
    assert set(small.tolist()) <= set(large.tolist())


def test_the_seed_alone_decides_a_subset():
    def pick(seed):
        return balanced_subset(1000, None, 100, seed).tolist()

    assert pick(1) == pick(1)
    assert pick(1) != pick(2)


def test_the_embedded_split_is_fixed_for_ever():
    """A model trained years ago must find the same held-out digits."""
    held = held_out(5000, torch.arange(5000) // 500).nonzero().flatten()
    digest = hashlib.sha256(" ".join(map(str, held.tolist())).encode()).hexdigest()
    assert len(held) == 1000
    assert digest[:16] == "323fab8135ccc7cc"


def splits(**counts):
    return {name: lambda n=n: Source(range(n)) for name, n in counts.items()}


def test_the_sources_own_splits_are_taken_whole():
    source, chosen = choose_split(splits(train=10, test=4), "test", "x")
    assert len(source.records) == len(chosen) == 4
    assert len(choose_split(splits(train=10, test=4), "train", "x")[1]) == 10


def test_validation_stands_in_for_a_missing_test_split():
    assert len(choose_split(splits(train=10, validation=3), "test", "x")[1]) == 3
    assert len(choose_split(splits(train=10, validation=3, test=2), "test", "x")[1]) == 2


@pytest.mark.parametrize("whole", ["all", "train"])
def test_without_a_test_split_train_and_test_share_what_there_is(whole):
    parts = {split: choose_split(splits(**{whole: 50}), split, "x")[1].tolist() for split in ("train", "test", "all")}
    assert sorted(parts["train"] + parts["test"]) == parts["all"] == list(range(50))
    assert len(parts["test"]) == 10


@pytest.mark.parametrize(
    ("counts", "split", "line"),
    [
        ({"train": 5, "test": 5}, "dev", "x has no split 'dev'; it has test, train"),
        ({"test": 5}, "train", "x has no split 'train'; it has test"),
        ({"train": 5, "test": 5}, "all", "x has no split 'all'; it has test, train"),
        ({"all": 1}, "test", "x has 1 image.*add a test split"),
    ],
)
def test_a_split_that_is_not_there_is_named(counts, split, line):
    with pytest.raises(DuetError, match=line):
        choose_split(splits(**counts), split, "x")
