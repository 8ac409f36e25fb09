"""Which images belong to a split or a subset: seeded or hashed, class-balanced, the same on every machine."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

from ..error import DuetError
from .source import Source, Splits

TEST_SHARE = 0.2
# Not the run's seed: a model must never be tested on images that another seed would have trained it on.
SPLIT_SEED = 0
CALIBRATION_SHARE = 0.1
DIVISIBLE = ("train", "all")
TESTS = ("test", "validation")
"""Parts of a set's own that tests are made on; the first one that there is."""


def choose_split(splits: Splits, split: str, name: str) -> tuple[Source, Tensor]:
    """The source of a split and the indices (n,) that belong to it.

    "test" falls back to a validation split, then to a fifth of each class held out of the only part there is.
    """
    tests = [part for part in TESTS if part in splits]
    whole = next((part for part in DIVISIBLE if part in splits), None)
    if whole is not None and not tests and split in ("train", "test", "all"):
        source = splits[whole]()
        count = len(source.records)
        if split == "all":
            return source, torch.arange(count)
        held = held_out(count, source.labels)
        chosen = (held if split == "test" else ~held).nonzero().flatten()
        if not len(chosen):
            raise DuetError(f"{name} has {count} image(s), too few to hold out a {split} part: add a {split} split")
        return source, chosen
    found = split if split in splits else tests[0] if split == "test" and tests else None
    if found is None:
        whole = ", and nothing is held out of train" if split == "all" and "train" in splits else ""
        raise DuetError(f"{name} has no split {split!r}; it has {', '.join(sorted(splits))}{whole}")
    source = splits[found]()
    return source, torch.arange(len(source.records))


def has_test(splits: Splits) -> bool:
    """Whether a set has a part of its own for tests, so that nothing is held out of another."""
    return any(part in splits for part in TESTS)


def held_out(count: int, labels: Tensor | None) -> Tensor:
    """Mask (count,) of the test part: a fifth of every class, and at least one image when there are two."""
    wanted = max(1, round(TEST_SHARE * count)) if count > 1 else 0
    return _share_of_classes(_shuffle(count, SPLIT_SEED), labels, wanted)


def calibration_part(identities: Iterable[bytes], labels: Tensor | None) -> Tensor:
    """Mask (count,) of a tenth of every class, by a hash of each image's identity: no seed, and no matter the order."""
    keys = [hashlib.blake2b(identity, digest_size=16).digest() for identity in identities]
    shuffled = torch.tensor(sorted(range(len(keys)), key=keys.__getitem__), dtype=torch.int64)
    return _share_of_classes(shuffled, labels, round(CALIBRATION_SHARE * len(keys)))


def balanced_subset(count: int, labels: Tensor | None, wanted: int, seed: int) -> Tensor:
    """`wanted` of `count` indices in ascending order, as equal over classes as they allow; larger contains smaller."""
    shuffled = _shuffle(count, seed)
    place, _ = _places(shuffled, labels)
    # By absolute place, classes take turns.
    first = place[shuffled].argsort(stable=True)[:wanted]
    return shuffled[first].sort().values


def _shuffle(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _share_of_classes(shuffled: Tensor, labels: Tensor | None, wanted: int) -> Tensor:
    """Mask (count,) of the first `wanted` of a shuffle (count,), of every class in proportion."""
    place, size = _places(shuffled, labels)
    first = ((place + 0.5) / size)[shuffled].argsort(stable=True)[:wanted]
    held = torch.zeros(len(shuffled), dtype=torch.bool)
    held[shuffled[first]] = True
    return held


def _places(shuffled: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """Place of every image in a shuffle of its class, and the size of that class: both (count,)."""
    count = len(shuffled)
    if labels is None:
        labels = torch.zeros(count, dtype=torch.int64)
    _, member, sizes = torch.unique(labels[shuffled], return_inverse=True, return_counts=True)
    by_class = member.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    place, size = torch.empty_like(shuffled), torch.empty_like(shuffled)
    place[shuffled[by_class]] = torch.arange(count) - starts[member[by_class]]
    size[shuffled] = sizes[member]
    return place, size
