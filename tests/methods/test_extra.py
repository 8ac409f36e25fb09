"""DUET with views apart, and what ESSL regresses: the extra views, and the losses on them written out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet import GROUPS
from duet.groups import Stack
from duet.methods import Duet
from duet.methods.essl import ESSL, draw_half, outputs, prediction_loss, regressed
from duet.methods.extra import draw_extra
from duet.networks import Projector
from duet.objectives import jensen_shannon, nt_xent
from duet.representation import Concatenated, Flat, Table

from .test_methods import axis, backbone, build, images, seeded


def separate(*names, weight=7.0, **options):
    torch.manual_seed(0)
    layout = Table(4, axis(names[0])) if len(names) == 1 else Concatenated(2, [axis(n) for n in names])
    return Duet(backbone(), layout, Projector(32, (16,), 8), weight, views="separate", **options)


@pytest.mark.parametrize("full", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", [name for name in GROUPS if name != "scale"])
def test_duet_with_views_apart_trains_all_of_it(name, full):
    model = separate(name, full=full)
    terms = model.losses(model.draw_views(images(), Stack.rrc_plus(name), seeded()))
    assert set(terms) == {"content", "group"}
    sum(terms.values()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_extra_views_of_duet_are_those_of_essl():
    for name in ("rot4", "rot360", "hue"):
        ours = separate(name).draw_views(images(), Stack.full(name), seeded(3))
        theirs = build("essl", name).draw_views(images(), Stack.full(name), seeded(3))
        assert torch.equal(ours.images, theirs.images)
        assert ours.g == {}
        assert torch.equal(ours.extra[name].images, theirs.extra[name].images)
        assert torch.equal(ours.extra[name].g[name], theirs.extra[name].g[name])


def test_the_losses_on_views_apart_written_out():
    model = separate("rot4", full=0.5).eval().requires_grad_(False)
    views = model.draw_views(images(16), Stack.rrc_plus("rot4"), seeded())
    terms = model.losses(views)
    z = model.projector(model.backbone(views.images))  # all features, not their content
    assert torch.allclose(terms["content"], 2 * nt_xent(z[:16], z[16:], 0.1), atol=1e-5)
    sizes = []
    for view in views.extra.values():
        p = model.backbone(view.images).view(-1, 4, 8).mean(1).softmax(1)
        sizes.append(float(jensen_shannon(p, axis("rot4").target.masses(view.g["rot4"], 8)).mean()))
    assert len(sizes) == 2
    assert float(terms["group"]) == pytest.approx(7 * sum(sizes) / 2, rel=1e-5)


def test_full_size_can_come_last():
    model = separate("rot4", full=1.0, full_from=0.5)
    for progress, size in ((0.0, 8), (0.49, 8), (0.5, 16), (0.99, 16)):
        model.progress = progress
        views = model.draw_views(images(16), Stack.rrc_plus("rot4"), seeded())
        assert {view.images.shape[-1] for view in views.extra.values()} == {size}


def test_several_groups_have_extra_views_each_and_average_their_losses():
    model = separate("rot360", "hue").eval().requires_grad_(False)
    views = model.draw_views(images(), Stack.rrc_plus(["rot360", "hue"]), seeded())
    assert {name: set(view.g) for name, view in views.extra.items()} == {"rot360": {"rot360"}, "hue": {"hue"}}
    losses = []
    for a in model.layout.axes:
        z = model.backbone(views.extra[a.name].images)
        q = a.target.masses(views.extra[a.name].g[a.name], 8)
        losses.append(float(jensen_shannon(model.layout.group_logits(z, a).softmax(1), q).mean()))
    assert float(model.losses(views)["group"]) == pytest.approx(7 * sum(losses) / 2, rel=1e-5)


@settings(max_examples=25)
@given(count=st.integers(1, 40), full=st.floats(0, 1), name=st.sampled_from(["rot4", "hflip", "hue"]))
def test_extra_views_cost_the_same_at_any_size(count, full, name):
    """In pixels: a quarter of the images, for each element, up to half an image of rounding at either size."""
    group = GROUPS[name]
    pixels = torch.zeros(count, 3, 8, 8)
    extra = draw_extra(pixels, Stack.rrc_plus(name).without(name), [group], seeded(), full)
    copies = 1 if group.elements is None else len(group.elements)
    spent = sum(view.images[:, 0].numel() for view in extra.values()) / (copies * 64)
    assert abs(spent - count / 4) <= 0.5 + 0.125 + 1e-6
    assert sorted({view.images.shape[2] for view in extra.values()} | {4, 8}) == [4, 8]


def test_views_of_one_size_go_through_the_backbone_together():
    model = separate("rot4", full=0.5)
    seen = []
    model.backbone.register_forward_hook(lambda _, inputs, __: seen.append(tuple(inputs[0].shape)))
    model.represent(model.draw_views(images(16), Stack.rrc_plus("rot4"), seeded()))
    assert sorted(seen) == [(32, 3, 8, 8), (40, 3, 16, 16)]  # 8 images at 4 turns; 32 views and 2 images at 4 turns


def test_only_views_apart_are_the_methods_own():
    assert separate("rot4").draws_own_views
    assert build("essl", "rot4").draws_own_views
    assert not build("duet", "rot4").draws_own_views
    assert not build("simclr").draws_own_views


def test_without_a_weight_there_are_no_extra_views():
    model = separate("rot4", weight=0.0)
    views = model.draw_views(images(), Stack.rrc_plus("rot4"), seeded())
    assert views.extra == {}
    assert set(model.losses(views)) == {"content"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: separate("rot4", reference="relative"), "relative reference needs two"),
        (lambda: separate("rot4", full=1.5), "from 0 to 1; it is 1.5"),
        (lambda: separate("rot4", full=1.0, full_from=2.0), "from 0 to 1; it is 2.0"),
        (lambda: build("duet", "rot4", full=0.5), "give views=separate too"),
        (lambda: build("duet", "rot4", views="apart"), "'shared' or 'separate'"),
        (lambda: separate("scale").draw_views(images(), Stack.rrc_plus("scale"), seeded()), "no meaning for scale"),
        (lambda: separate("rot4").draw_views(images(), Stack.rrc_plus("hue"), seeded()), "track it in the stack"),
        (lambda: authors("hue", targets="theirs"), "'own' or 'authors'"),
    ],
)
def test_what_has_no_meaning_apart_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def authors(name, targets="authors"):
    torch.manual_seed(0)
    return ESSL(backbone(), Flat(32), Projector(32, (16,), 8), [GROUPS[name]], hidden=16, targets=targets)


@pytest.mark.parametrize(("name", "ratio"), [("hue", 25.0), ("brightness", 1 / 0.64), ("rot360", 6.0)])
def test_the_authors_targets_vary_less(name, ratio):
    """Uniform factors of width 0.2 and 0.8 against g; up to half a half-turn against cosine and sine."""
    group = GROUPS[name]
    own = regressed(group.sample(200_000, seeded()), group)
    theirs = regressed(draw_half(group, 200_000, seeded()), group, "authors")
    assert float(own.var(0).mean() / theirs.var(0).mean()) == pytest.approx(ratio, rel=0.02)


def test_the_authors_targets_by_hand():
    g = torch.tensor([0.0, 0.25, 0.5, 0.75])
    assert regressed(g, GROUPS["hue"], "authors").flatten().tolist() == pytest.approx([-0.1, -0.05, 0.0, 0.05])
    assert regressed(g, GROUPS["contrast"], "authors").flatten().tolist() == pytest.approx([0.6, 0.8, 1.0, 1.2])
    halves = GROUPS["rot360"].from_parameter(torch.tensor([-90.0, 0.0, 45.0]))
    assert regressed(halves, GROUPS["rot360"], "authors").flatten().tolist() == pytest.approx([-0.5, 0.0, 0.25])
    predicted = torch.tensor([[0.1]])
    assert float(prediction_loss(predicted, torch.tensor([1.0]), GROUPS["hue"], "authors")) == pytest.approx(0.0)
    assert outputs(GROUPS["rot360"]) == 2
    assert outputs(GROUPS["rot360"], "authors") == 1
    assert outputs(GROUPS["rot4"], "authors") == 4


@pytest.mark.parametrize("name", ["rot360", "hue", "rot4", "hflip"])
def test_the_authors_views_turn_by_a_quarter_at_most(name):
    model = authors(name)
    views = model.draw_views(images(64), Stack.rrc_plus(name), seeded())
    g = views.extra[name].g[name]
    if name == "rot360":
        assert float(GROUPS[name].parameter(g).abs().max()) <= 90
        assert float(GROUPS[name].parameter(g).abs().max()) > 80
    else:
        own = authors(name, "own").draw_views(images(64), Stack.rrc_plus(name), seeded())
        assert torch.equal(own.extra[name].g[name], g)
    terms = model.losses(views)
    sum(terms.values()).backward()
    assert all(p.grad is not None for p in model.parameters())
