"""Which images belong to a split or a subset: seeded, class-balanced, the same on every machine."""

import torch
from torch import Tensor

from ..error import DuetError
from .source import Source, Splits

TEST_SHARE = 0.2
# Not the run's seed: a model must never be tested on images that another seed would have trained it on.
SPLIT_SEED = 0
DIVISIBLE = ("train", "all")


def choose_split(splits: Splits, split: str, name: str) -> tuple[Source, Tensor]:
    """The source of a split and the indices (n,) that belong to it.

    "test" falls back to a validation split, then to a fifth of each class held out of the only part there is.
    """
    tests = [part for part in ("test", "validation") if part in splits]
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
        raise DuetError(f"{name} has no split {split!r}; it has {', '.join(splits)}")
    source = splits[found]()
    return source, torch.arange(len(source.records))


def held_out(count: int, labels: Tensor | None) -> Tensor:
    """Mask (count,) of the test part: a fifth of every class, and at least one image when there are two."""
    place, size, shuffled = _places(count, labels, SPLIT_SEED)
    wanted = max(1, round(TEST_SHARE * count)) if count > 1 else 0
    # By relative place, large classes give in proportion.
    first = ((place + 0.5) / size)[shuffled].argsort(stable=True)[:wanted]
    held = torch.zeros(count, dtype=torch.bool)
    held[shuffled[first]] = True
    return held


def balanced_subset(count: int, labels: Tensor | None, wanted: int, seed: int) -> Tensor:
    """`wanted` of `count` indices in ascending order, as equal over classes as they allow; larger contains smaller."""
    place, _, shuffled = _places(count, labels, seed)
    # By absolute place, classes take turns.
    first = place[shuffled].argsort(stable=True)[:wanted]
    return shuffled[first].sort().values


def _places(count: int, labels: Tensor | None, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Place of every image in a shuffle of its class, size of that class, and the shuffle: all (count,)."""
    if labels is None:
        labels = torch.zeros(count, dtype=torch.int64)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    _, member, sizes = torch.unique(labels[shuffled], return_inverse=True, return_counts=True)
    by_class = member.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    place, size = torch.empty_like(shuffled), torch.empty_like(shuffled)
    place[shuffled[by_class]] = torch.arange(count) - starts[member[by_class]]
    size[shuffled] = sizes[member]
    return place, size, shuffled
