"""Every method with every group; the losses against their formulas written out."""

import math

import pytest
import torch
from torch import nn

from duet import GROUPS
from duet.error import DuetError
from duet.groups import Stack, Stage
from duet.methods import ESSL, Duet, Represented, SimCLR
from duet.methods.essl import prediction_loss
from duet.networks import Projector, wrap
from duet.objectives import jensen_shannon, nt_xent
from duet.representation import Axis, Concatenated, Flat, Gaussian, Joint, Table, VonMises, difference
from duet.training.experiment import Experiment, build_method


class Body(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.linear = nn.Linear(3 * 16, width)

    def forward(self, images):
        return self.linear(nn.functional.adaptive_avg_pool2d(images, 4).flatten(1))


def backbone(width=32):
    return wrap(Body(width), width=width)


def axis(name, bins=8):
    return Axis(name, bins, VonMises(sigma=0.2) if GROUPS[name].cyclic else Gaussian(sigma=0.2))


def build(method, *names, weight=10.0, **options):
    torch.manual_seed(0)
    network = backbone()
    if method == "simclr":
        return SimCLR(network, Flat(32), Projector(32, (16,), 8))
    if method == "essl":
        return ESSL(network, Flat(32), Projector(32, (16,), 8), [GROUPS[n] for n in names], hidden=16)
    layout = Table(4, axis(names[0])) if len(names) == 1 else Concatenated(2, [axis(n) for n in names])
    width = layout.content(torch.zeros(1, 32)).shape[1]
    return Duet(network, layout, Projector(width, (16,), 8), weight, **options)


def images(n=12):
    return torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("method", ["duet", "relative", "lambda0", "simclr", "essl"])
def test_every_method_with_every_group(method, name):
    if (method, name) == ("essl", "scale"):
        with pytest.raises(ValueError, match="no meaning for scale"):
            build("essl", name)
        return
    options = {"relative": {"reference": "relative"}, "lambda0": {"weight": 0.0}}.get(method, {})
    model = build(method if method in ("simclr", "essl") else "duet", name, **options)
    views = model.draw_views(images(), Stack.rrc_plus(name), seeded())
    terms = model.losses(views)
    expected = {"simclr": {"content"}, "lambda0": {"content"}, "essl": {"content", "prediction"}}
    assert set(terms) == expected.get(method, {"content", "group"})
    assert all(torch.isfinite(term) and term.ndim == 0 for term in terms.values())
    sum(terms.values()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_views_are_drawn_apart_and_repeat_with_their_generator():
    model = build("duet", "rot360")
    first, second = (model.draw_views(images(), Stack.rrc_plus("rot360"), seeded(4)) for _ in range(2))
    assert first.images.shape == (24, 3, 16, 16)
    assert first.g["rot360"].shape == (24,)
    assert torch.equal(first.images, second.images)
    assert not torch.equal(first.g["rot360"][:12], first.g["rot360"][12:])


def test_duets_loss_is_the_papers_written_out():
    model = build("duet", "rot360", weight=7.0).eval()
    views = model.draw_views(images(), Stack.rrc_plus("rot360"), seeded())
    terms = model.losses(views)
    table = model.backbone(views.images).view(24, 4, 8)
    content = model.projector(table.sum(2))
    assert torch.allclose(terms["content"], 2 * nt_xent(content[:12], content[12:], 0.1), atol=1e-6)
    total = 0.0
    for i in range(12):
        for k in (i, i + 12):
            p = table[k].mean(0).softmax(0)
            q = VonMises(sigma=0.2).masses(views.g["rot360"][k : k + 1], 8)[0]
            total += 0.5 * float(jensen_shannon(p[None], q[None]))
    assert float(terms["group"]) == pytest.approx(7 * total / 12, rel=1e-5)


def test_the_relative_reference_matches_differences():
    model = build("duet", "rot360", weight=3.0, reference="relative").eval()
    views = model.draw_views(images(), Stack.rrc_plus("rot360"), seeded())
    group = model.losses(views)["group"]
    p = model.backbone(views.images).view(24, 4, 8).mean(1).softmax(1)
    delta = views.g["rot360"][12:] - views.g["rot360"][:12]
    q = VonMises(sigma=0.2).difference_masses(delta, 8)
    assert torch.allclose(group, 3 * jensen_shannon(difference(p[:12], p[12:], True), q).mean(), atol=1e-6)


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("method", ["duet", "relative", "separate", "simclr", "essl"])
def test_more_than_two_views_are_contrasted_pair_by_pair(method, count):
    options = {"relative": {"reference": "relative"}}.get(method, {})
    model = build_separate() if method == "separate" else build(*named(method), "rot4", **options)
    model.eval().view_count = count
    views = model.draw_views(images(), Stack.rrc_plus("rot4"), seeded())
    assert views.images.shape == (12 * count, 3, 16, 16)
    assert views.count == count
    if method in ("separate", "essl"):  # extra views are of images, not of their views
        assert len(views.extra["rot4"].images) == 4 * 12
    z = model.backbone(views.images)
    z = z.view(12 * count, 4, 8).sum(2) if method in ("duet", "relative") else z
    parts = model.projector(z).split(12)
    pairs = [nt_xent(parts[i], parts[j], 0.1) for i in range(count) for j in range(i)]
    terms = model.losses(views)
    assert float(terms["content"]) == pytest.approx(2 * float(sum(pairs)) / len(pairs), rel=1e-5)
    sum(terms.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def named(method):
    return ["duet"] if method == "relative" else [method]


def build_separate():
    torch.manual_seed(0)
    return Duet(backbone(), Table(4, axis("rot4")), Projector(32, (16,), 8), views="separate")


@pytest.mark.parametrize("name", ["rot360", "hue"])
@pytest.mark.parametrize("count", [3, 4])
def test_the_relative_reference_is_the_mean_over_pairs_of_views(name, count):
    model = build("duet", name, weight=3.0, reference="relative").eval()
    model.view_count = count
    views = model.draw_views(images(), Stack.rrc_plus(name), seeded())
    z = 4 * torch.randn(12 * count, 32, generator=seeded(2))  # peaked marginals, so that pairs differ
    group = model.terms(Represented(z), views)["group"]
    p = z.view(12 * count, 4, 8).mean(1).softmax(1)
    target, losses = axis(name).target, []
    for i in range(count):
        for j in range(i + 1, count):
            for image in range(12):
                a, b = 12 * i + image, 12 * j + image
                q = target.difference_masses(views.g[name][b : b + 1] - views.g[name][a : a + 1], 8)
                losses.append(float(jensen_shannon(difference(p[a : a + 1], p[b : b + 1], name == "rot360"), q)))
    assert float(group) == pytest.approx(3 * sum(losses) / len(losses), rel=1e-4)


def test_one_view_has_no_contrast():
    model = build("simclr", "hue")
    model.view_count = 1
    with pytest.raises(DuetError, match="at least 2 views"):
        model.losses(model.draw_views(images(), Stack.rrc_plus("hue"), seeded()))


@pytest.mark.parametrize("reference", ["absolute", "relative"])
def test_a_perfect_encoder_has_no_group_loss(reference):
    """Features whose column means are the target's log masses: what the loss asks for, exactly."""
    model = build("duet", "hue", reference=reference)
    views = model.draw_views(images(200), Stack.rrc_plus("hue"), seeded())
    g = views.g["hue"]
    logits = Gaussian(sigma=0.2).log_masses(g, 8)
    z = logits[:, None].expand(-1, 4, -1).reshape(400, 32)

    class Given:
        pass

    given = Given()
    given.z = z
    perfect = float(model.terms(given, views)["group"])
    wrong = float(model.terms(given, type(views)(views.images, {"hue": 1 - g}))["group"])
    assert wrong > 20 * perfect
    if reference == "absolute":
        assert perfect < 1e-5


def test_several_groups_average_their_losses():
    torch.manual_seed(0)
    axes = [axis("rot360", 4), axis("hue", 4)]
    for layout in (Joint(2, axes), Concatenated(4, axes)):
        width = layout.content(torch.zeros(1, 32)).shape[1]
        model = Duet(backbone(), layout, Projector(width, (16,), 8), weight=2.0).eval()
        views = model.draw_views(images(), Stack.rrc_plus(["rot360", "hue"]), seeded())
        z = model.backbone(views.images)
        losses = [
            jensen_shannon(layout.group_logits(z, a).softmax(1), a.target.masses(views.g[a.name], 4)).mean()
            for a in axes
        ]
        assert torch.allclose(model.losses(views)["group"], 2.0 * (losses[0] + losses[1]) / 2, atol=1e-6)


@pytest.mark.parametrize(("name", "copies"), [("rot4", 4), ("hflip", 2), ("grayscale", 2), ("rot360", 1), ("hue", 1)])
def test_essls_extra_views(name, copies):
    model = build("essl", name)
    views = model.draw_views(images(), Stack.rrc_plus(name), seeded())
    extra = views.extra[name]
    assert extra.images.shape == (12 * copies, 3, 8, 8)
    assert views.g == {}  # the two contrasted views are made without the group
    if copies > 1:
        assert sorted(set(extra.g[name].tolist())) == sorted(GROUPS[name].elements)
    if name == "rot4":
        quarter = torch.rot90(extra.images[:12], 1, (2, 3))
        assert torch.allclose(extra.images[12:24], quarter, atol=1e-5)


def test_essl_takes_the_group_out_of_the_contrasted_views():
    stack = Stack([Stage(GROUPS["rot4"], tracked=True)])
    views = build("essl", "rot4").draw_views(images(), stack, seeded())
    assert torch.equal(views.images[:12], images())


def test_prediction_losses_by_hand():
    g = torch.tensor([0.125, 0.625])
    logits = torch.tensor([[2.0, 0, 0, 0], [0, 0, 0, 1.0]])
    expected = (math.log(math.e**2 + 3) - 2 + math.log(3 + math.e)) / 2
    assert float(prediction_loss(logits, g, GROUPS["rot4"])) == pytest.approx(expected, rel=1e-5)
    assert float(prediction_loss(torch.tensor([[0.5]]), torch.tensor([0.2]), GROUPS["hue"])) == pytest.approx(0.09)
    right = torch.tensor([[0.0, 1.0]])  # a quarter of the circle
    assert float(prediction_loss(right, torch.tensor([0.25]), GROUPS["rot360"])) == pytest.approx(0, abs=1e-6)
    ends = [float(prediction_loss(right, torch.tensor([end]), GROUPS["rot360"])) for end in (0.0, 1.0)]
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Duet(backbone(), Flat(32), Projector(32, (8,), 8)), "at least one axis"),
        (lambda: Duet(backbone(), Table(5, axis("hue")), Projector(5, (8,), 8)), "40 features"),
        (lambda: build("duet", "hue", weight=-1.0), "negative"),
        (lambda: build("duet", "hue", reference="upright"), "absolute"),
        (lambda: build("essl"), "at least one group"),
    ],
)
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_untracked_group_is_named():
    model = build("duet", "hue")
    views = model.draw_views(images(), Stack([Stage(GROUPS["hue"])]), seeded())
    with pytest.raises(ValueError, match="track it in the stack"):
        model.losses(views)


def test_simclr_can_leave_the_group_out_of_its_views():
    experiment = Experiment(method="simclr", group="rot4", encoder="tiny", options={"leave_out": True})
    images = torch.rand(4, 3, 32, 32)
    left_out = build_method(experiment).draw_views(images, Stack.full("rot4"), torch.Generator().manual_seed(0))
    assert left_out.g == {}
    plain = build_method(Experiment(method="simclr", group="rot4", encoder="tiny"))
    without = plain.draw_views(images, Stack.full(), torch.Generator().manual_seed(0))
    assert torch.equal(left_out.images, without.images)
    with pytest.raises(DuetError, match="left without a crop"):
        build_method(Experiment(method="simclr", group="scale", encoder="tiny", options={"leave_out": True}))
