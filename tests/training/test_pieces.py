"""A batch in pieces is the batch: its loss, its gradients and its run, where no batch statistics are involved."""

import copy
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import set_checkpoint_early_stop

from duet import GROUPS, Experiment, train
from duet.groups import Stack, View
from duet.methods import ESSL, Duet, Method, Represented, SimCLR, Views
from duet.networks import OnlineHead, Projector, wrap
from duet.representation import Axis, Concatenated, Flat, Gaussian, Table, VonMises
from duet.training.pieces import cut, join, represent_in_pieces
from duet.training.step import loss_of_batch


class Align(Method):
    """A method of a user's, without a projector."""

    name, title = "align_in_pieces", "Alignment"

    def terms(self, represented, views, gather=None):
        first, second = views.split(represented.z)
        return {"alignment": (first - second).square().sum(1).mean(), "spread": -represented.z.std()}


class Body(nn.Sequential):
    """Pools to 4 x 4 and maps to 32 features; remembers how many rows have kept something for the way back."""

    def __init__(self, *layers):
        super().__init__(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 32), nn.Tanh(), *layers)
        self.kept, self.most = [], 0

    def forward(self, images):
        found = super().forward(images)  # tanh keeps its result
        self.kept.append((StorageWeakRef(found.untyped_storage()), len(found)))
        self.kept = [(storage, rows) for storage, rows in self.kept if not storage.expired()]
        self.most = max(self.most, sum(rows for _, rows in self.kept))
        return found * 1.5


def network(*layers):
    made = wrap(Body(*layers), channels=1, width=32)
    made.norm = nn.Identity()
    return made


def axis(name):
    return Axis(name, 8, VonMises(sigma=0.2) if GROUPS[name].domain.least_bins == 3 else Gaussian(sigma=0.2))


def build(kind, *layers):
    torch.manual_seed(0)
    backbone = network(*layers)
    if kind == "simclr":
        return SimCLR(backbone, Flat(32), Projector(32, (16,), 8)).double()
    if kind == "align":
        return Align(backbone, Flat(32)).double()
    if kind.startswith("essl"):
        targets = "authors" if kind.endswith("authors") else "own"
        groups = [GROUPS["rot4"], GROUPS["rot360"]]
        return ESSL(backbone, Flat(32), Projector(32, (16,), 8), groups, hidden=16, targets=targets).double()
    if kind == "several":
        layout = Concatenated(2, [axis("rot4"), axis("rot360")])
        return Duet(backbone, layout, Projector(layout.content_width, (16,), 8)).double()
    if kind == "separate":
        options = {"views": "separate", "full": 0.5}
        return Duet(backbone, Table(4, axis("rot4")), Projector(32, (16,), 8), **options).double()
    reference = "relative" if kind == "relative" else "absolute"
    return Duet(backbone, Table(4, axis("rot4")), Projector(4, (16,), 8), reference=reference).double()


KINDS = ["duet", "relative", "several", "separate", "essl", "essl authors", "simclr", "align"]


def images(n=24):
    return torch.rand(n, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def gradients(method, pieces, head=None, n=24):
    """The terms of a step, and the gradient of every weight."""
    for part in (method, head or nn.Identity()):
        part.zero_grad()
    labels = torch.arange(n) % 5
    torch.manual_seed(3)
    stack, generator = Stack.rrc_plus(["rot4", "rot360"]), torch.Generator().manual_seed(2)
    loss, terms = loss_of_batch(method, stack, images(n), generator, head, labels, pieces=pieces)
    loss.backward()
    weights = [*method.parameters(), *(head.parameters() if head else ())]
    return terms, [p.grad.clone() for p in weights]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_have_the_loss_and_the_gradients_of_the_whole_batch(kind):
    method, head = build(kind), OnlineHead(32, 5).double()
    terms, whole = gradients(method, 1, head)
    for pieces in (2, 4, 24):
        found, ours = gradients(method, pieces, head)
        assert set(found) == set(terms)
        assert all(torch.allclose(found[name], terms[name], atol=1e-6) for name in terms)
        assert max(float((a - b).abs().max()) for a, b in zip(ours, whole, strict=True)) < 1e-10


@pytest.mark.parametrize("kind", ["relative", "separate", "essl"])
def test_pieces_of_four_views_are_the_whole_batch_too(kind):
    """The head takes the labels of all views."""
    method, head = build(kind), OnlineHead(32, 5).double()
    method.view_count = 4
    terms, whole = gradients(method, 1, head)
    found, ours = gradients(method, 4, head)
    assert all(torch.allclose(found[name], terms[name], atol=1e-6) for name in terms)
    assert max(float((a - b).abs().max()) for a, b in zip(ours, whole, strict=True)) < 1e-10


@pytest.mark.parametrize("kind", ["duet", "separate", "essl"])
def test_pieces_need_the_memory_of_one(kind):
    """Rows that keep something for the way back at any moment: all of them, or those of a piece."""
    most = {}
    for pieces in (1, 4):
        method = build(kind)
        with set_checkpoint_early_stop(False):  # what is computed again runs to its end, where the rows are counted
            gradients(method, pieces)
        most[pieces] = _body(method).most
    assert most[1] == {"duet": 48, "separate": 108, "essl": 168}[kind]
    assert most[4] == most[1] // 4


def _body(method):
    return next(part for part in method.modules() if isinstance(part, Body))


def graph_of_pieces(method, views, pieces):
    """The same pieces with all of their graph kept: what is computed again must repeat this."""
    return join([method.represent(cut(views, slice(k, None, pieces))) for k in range(pieces)])


@pytest.mark.parametrize("autocast", [False, True], ids=["double", "bf16"])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_what_a_network_draws_and_counts_is_as_if_it_ran_once(autocast, momentum):
    first = build("duet", nn.Linear(32, 32), nn.BatchNorm1d(32, momentum=momentum), nn.Dropout(0.5))
    first = first.float() if autocast else first
    second = copy.deepcopy(first)
    views = first.draw_views(images().to(next(first.parameters()).dtype), Stack.rrc_plus("rot4"), torch.Generator())
    found = []
    for method, represent in ((first, represent_in_pieces), (second, graph_of_pieces)):
        torch.manual_seed(5)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = sum(method.terms(represent(method, views, 4), views).values())
        loss.backward()
        found.append([p.grad for p in method.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    ours, theirs = (dict(method.named_buffers()) for method in (first, second))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    norm = next(part for part in _body(first) if isinstance(part, nn.BatchNorm1d))
    assert int(norm.num_batches_tracked) == 4
    assert norm.momentum == momentum


@settings(max_examples=30)
@given(each=st.integers(1, 5), pieces=st.integers(1, 6), extra=st.integers(0, 17))
def test_cut_and_join_undo_each_other(each, pieces, extra):
    count = each * pieces
    rows = torch.arange(2.0 * count)
    small = View(torch.arange(float(extra)).view(-1, 1, 1, 1), {"hue": torch.arange(float(extra))})
    views = Views(rows.view(-1, 1, 1, 1), {"hue": rows}, 2, {"hue": small} if extra else {})
    parts = [cut(views, slice(k, None, pieces)) for k in range(pieces)]
    for part in parts:  # both views of the same images
        first, second = part.split(part.g["hue"])
        assert torch.equal(first + count, second)
        assert len(first) == each
    whole = join([Represented(p.g["hue"], {name: v.g["hue"] for name, v in p.extra.items()}) for p in parts])
    assert torch.equal(whole.z, rows)
    assert all(torch.equal(found, torch.arange(float(extra))) for found in whole.extra.values())
    assert len(whole.extra) == bool(extra)


def test_what_cannot_be_cut_is_refused():
    method = build("duet")
    views = method.draw_views(images(10), Stack.rrc_plus("rot4"), torch.Generator())
    with pytest.raises(ValueError, match="10 images cannot be cut into 4"):
        represent_in_pieces(method, views, 4)

    @dataclass(frozen=True)
    class More(Represented):
        share: float = 1.0

    with pytest.raises(ValueError, match="a row for every view"):
        join([More(torch.zeros(2, 3)), More(torch.zeros(2, 3))])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"accumulate": 1}, "give --accumulate 2 or more"),
        ({"compile": True}, "not tried with compile"),
        ({"devices": 2}, "not tried with several processes"),
    ],
)
def test_an_exact_run_that_means_nothing_is_refused(changes, line):
    with pytest.raises(ValueError, match=line):
        Experiment(**{"exact": True, "accumulate": 2, **changes})


@pytest.mark.parametrize("method", ["duet", "essl"])
def test_an_exact_run_is_that_of_the_large_batch(tmp_path, tiny, method):
    """Batch by batch of the whole run, by a network without batch statistics; the projector has some, of all images."""
    torch.manual_seed(0)
    backbone = network()
    weights = {}
    for name, changes in (("large", {"batch_size": 32}), ("exact", {"batch_size": 8, "accumulate": 4, "exact": True})):
        experiment = tiny(subset=96, epochs=2, method=method, precision="64", action_pairs=0, **changes)
        run = train(experiment, tmp_path / name, backbone=copy.deepcopy(backbone), quiet=True)
        weights[name] = load_file(run / "model" / "model.safetensors")
        assert (run / "metrics.csv").read_text().count("\n") == 7
    assert max(float((weights["large"][k] - v).abs().max()) for k, v in weights["exact"].items()) < 1e-5
    start = dict(backbone.named_parameters())
    moved = [float((v - start[k].detach()).abs().max()) for k, v in _of_backbone(weights["large"], start)]
    assert max(moved) > 1e-3


def _of_backbone(weights, start):
    found = [(name, value) for key, value in weights.items() for name in start if key.endswith(name)]
    assert found
    return found
