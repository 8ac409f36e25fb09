"""The order of an epoch: a pure function of (seed, epoch), so that any batch can be found without the ones before."""

import hashlib

import torch
from torch import Tensor

from ..error import DuetError


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """Permutation (count,) of the images in one epoch."""
    # A hash keeps the streams of (1, 2) and (2, 1), or of neighbouring seeds, apart.
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
    return torch.randperm(count, generator=generator)


def count_batches(count: int, batch_size: int, world: int = 1, drop_last: bool = True) -> int:
    """Batches that every one of `world` processes sees in an epoch; an error when there is none."""
    if batch_size < 1 or world < 1:
        raise DuetError(f"batch size and number of processes start at 1, got {batch_size} and {world}")
    full, rest = divmod(count, batch_size * world)
    # A last batch that cannot reach every process would leave some of them waiting for ever.
    batches = full + (1 if not drop_last and rest >= world else 0)
    if not batches:
        if count < world:
            raise DuetError(f"{count} images are too few for {world} processes: use at most {max(count, 1)}")
        each = f" for each of {world} processes" if world > 1 else ""
        line = f"{count} images make no batch of {batch_size}{each}"
        raise DuetError(f"{line}: use a --batch-size of at most {count // world}")
    return batches


def epoch_batches(
    count: int,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    rank: int = 0,
    world: int = 1,
    drop_last: bool = True,
    start: int = 0,
) -> list[Tensor]:
    """Indices of batches `start` onwards, (batch_size,) each, of process `rank`.

    The batches of all ranks, joined, are the batch that one process with `world * batch_size` would see.
    """
    batches = count_batches(count, batch_size, world, drop_last)
    if not 0 <= rank < world:
        raise DuetError(f"rank {rank} is not one of {world} processes")
    if not 0 <= start <= batches:
        raise DuetError(f"batch {start} is not in an epoch of {batches} batches")
    joined = torch.split(epoch_order(count, seed, epoch), batch_size * world)
    return [batch.tensor_split(world)[rank] for batch in joined[start:batches]]
