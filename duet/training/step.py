"""One training step of any method: views, features, terms, and the head that watches. Written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..device import full_precision
from ..error import DuetError
from ..groups import Stack
from ..methods import Method, Views
from ..networks import OnlineHead
from ..objectives import Gather
from .pieces import represent_in_pieces


class ViewCache(Protocol):
    """Views that are ready: the method need not draw any."""

    def pick(self, rows: Tensor, count: int, generator: torch.Generator) -> Views:
        """`count` views of each of these images: (B,) -> Views."""
        ...


def loss_of_batch(
    method: Method,
    stack: Stack | ViewCache,
    images: Tensor,
    generator: torch.Generator,
    head: OnlineHead | None = None,
    labels: Tensor | None = None,
    gather: Gather | None = None,
    pieces: int = 1,
    show: Callable[[Tensor], None] | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """What to differentiate, and every term of it by name: images (B,C,H,W), labels (B,) with -1 for none.

    Where views are cached, `images` are their numbers (B,), and the views what a trunk has made of them. In `pieces`
    the batch goes through the backbone, if in more than one: the loss is still that of all images. `show` is handed
    the features (n, D) of the views, detached.
    """
    with torch.no_grad(), full_precision(images):
        if isinstance(stack, Stack):
            views = method.draw_views(images, stack, generator)
        else:
            views = stack.pick(images, method.view_count, generator)
    represented = method.represent(views) if pieces == 1 else represent_in_pieces(method, views, pieces)
    if show is not None:
        show(represented.z.detach())
    terms = method.terms(represented, views, gather)
    if not isinstance(terms, dict) or not terms or not all(isinstance(term, Tensor) for term in terms.values()):
        raise DuetError(f"{type(method).__name__}.terms must return the terms of the loss by name, a dict of tensors")
    loss = torch.stack([term.float() for term in terms.values()]).sum()
    latest = {"loss": loss.detach(), **{name: term.detach() for name, term in terms.items()}}
    if head is not None and labels is not None:
        labels = labels.repeat(len(represented.z) // len(labels))
        logits = head(represented.z)
        watching = head.loss(logits.float(), labels)
        latest |= {"head": watching.detach(), "head_accuracy": head.accuracy(logits.detach(), labels)}
        # The head's input is detached: this adds nothing to the encoder's gradient.
        loss = loss + watching
    return loss, latest


def parameter_groups(method: Method, head: nn.Module | None = None, decay_norms: bool = True) -> list[dict[str, Any]]:
    """What the optimiser trains: the method's groups, and the head with the first that has no options of its own.

    Without `decay_norms` biases and the weights of normalisation layers go into groups without weight decay.
    """
    groups = [{**group, "params": list(group["params"])} for group in method.parameter_groups()]
    if head is not None:
        plain = next((group for group in groups if set(group) == {"params"}), None)
        if plain is None:
            plain = {"params": []}
            groups.append(plain)
        plain["params"] += list(head.parameters())
    return groups if decay_norms else [part for group in groups for part in _split_vectors(group)]


def _split_vectors(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The matrices of a group, and its vectors (biases, scales) without weight decay."""
    matrices = [p for p in group["params"] if p.ndim > 1]
    vectors = [p for p in group["params"] if p.ndim <= 1]
    if matrices:
        yield {**group, "params": matrices}
    if vectors:
        yield {**group, "params": vectors, "weight_decay": 0.0}


def step_seed(seed: int, step: int, rank: int) -> int:
    """The generator's seed of a step: a function of (seed, step, rank), scattered so that neighbours are unrelated."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB + 1) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (mixed ^ (mixed >> 31)) & (2**63 - 1)
