"""Stacks of stages: what is drawn, what is tracked, and that one resampling is enough."""

import pytest
import torch

from duet import GROUPS, allocator
from duet.groups import Blur, Geometric, Group, Jitter, Stack, Stage, rot360
from duet.groups.affine import fuse, resample
from duet.groups.geometric import Scale


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def smooth(n=4, side=32):
    x = torch.linspace(-1, 1, side)
    waves = [torch.sin(2 * x[None, :] + a) * torch.cos(1.5 * x[:, None] - a) for a in (0.3, 1.1, 2.0)]
    return (0.5 + 0.3 * torch.stack(waves)).expand(n, 3, side, side).contiguous()


def inside(side=32, margin=2):
    x = torch.arange(side) - (side - 1) / 2
    return x[None, :] ** 2 + x[:, None] ** 2 <= ((side - 1) / 2 - margin) ** 2


STACKS = [make(name) for make in (Stack.rrc_plus, Stack.mild, Stack.full) for name in GROUPS]


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: f"{len(s.stages)}-{s.tracked[0].name}")
def test_every_group_in_every_stack(stack):
    images = torch.rand(64, 3, 16, 16, generator=seeded())
    view = stack(images, seeded(1))
    (group,) = stack.tracked
    assert view.images.shape == images.shape
    assert view.images.min() >= 0
    assert view.images.max() <= 1
    assert set(view.g) == {group.name}
    assert view.g[group.name].shape == (64,)
    assert view.g[group.name].min() >= 0
    assert view.g[group.name].max() <= 1


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: f"{len(s.stages)}-{s.tracked[0].name}")
def test_same_generator_state_same_view_bit_for_bit(stack):
    images = torch.rand(200, 3, 16, 16, generator=seeded())
    first, second = stack(images, seeded(5)), stack(images, seeded(5))
    assert torch.equal(first.images, second.images)
    assert all(torch.equal(first.g[name], second.g[name]) for name in first.g)
    assert not torch.equal(first.images, stack(images, seeded(6)).images)


@pytest.mark.parametrize("name", ["rot360", "hue", "grayscale"])
def test_a_batch_equals_its_samples_one_by_one(name):
    images = torch.rand(250, 3, 32, 32, generator=seeded())  # more than one part at a time
    stack = Stack.full(tracked=name)
    drawn = stack.draw(250, (32, 32), seeded(2))
    together = stack.render(images, drawn).images
    for i in (0, 1, 100, 170, 249):
        alone = stack.render(images[i : i + 1], drawn[i : i + 1]).images
        assert (together[i] - alone[0]).abs().max() < 1e-5


def test_a_view_does_not_depend_on_what_shares_its_batch():
    images = torch.rand(40, 3, 8, 8, generator=seeded())
    stack = Stack([Stage(GROUPS["hue"], 0.8)])
    drawn = stack.draw(40, (8, 8), seeded(2))
    together = stack.render(images, drawn).images
    parts = [stack.render(images[i : i + 4], drawn[i : i + 4]).images for i in range(0, 40, 4)]
    assert torch.equal(together, torch.cat(parts))
    still = drawn.g[0] == GROUPS["hue"].identity
    assert still.any()
    assert torch.equal(together[still], images[still])


def test_uint8_and_float_give_the_same_view():
    images = torch.randint(256, (8, 3, 16, 16), generator=seeded(), dtype=torch.uint8)
    stack = Stack.full("rot360")
    assert torch.allclose(stack(images, seeded(1)).images, stack(images.float() / 255, seeded(1)).images, atol=1e-5)


def test_the_input_is_not_overwritten():
    images = torch.rand(300, 3, 32, 32)
    before = images.clone()
    for stack in (Stack.full("hue"), Stack([Stage(GROUPS["hue"])]), Stack([Stage(Blur(), 0.5)])):
        stack(images, seeded())
        assert torch.equal(images, before)


class Counting:
    """Counts the calls of the resampling."""

    def __init__(self, monkeypatch):
        import duet.groups.views as views

        self.calls, real = 0, views.resample

        def resample(*args):
            self.calls += 1
            return real(*args)

        monkeypatch.setattr(views, "resample", resample)


def test_geometric_neighbours_are_resampled_once(monkeypatch):
    counting = Counting(monkeypatch)
    Stack.full("rot360")(torch.rand(4, 3, 16, 16), seeded())
    assert counting.calls == 1
    Stack.full("rot360", size=8)(torch.rand(4, 3, 16, 16), seeded())
    assert counting.calls == 2


@pytest.mark.parametrize(
    "names", [("scale", "rot360"), ("scale", "hflip", "rot360"), ("rot360", "vflip"), ("rot4", "scale")]
)
def test_one_resampling_equals_the_stages_one_after_another(names):
    images = smooth(16)
    stack = Stack([Stage(GROUPS[name]) for name in names])
    fused = stack(images, seeded(3)).images
    stepwise, generator = images, seeded(3)
    for name in names:  # the same draws, in the same order
        group = GROUPS[name]
        affine = group.affine(group.sample(16, generator), (32, 32), generator)
        stepwise = resample(stepwise, fuse([affine]), (32, 32))
    black = (stepwise == 0).all(1, keepdim=True) | (fused == 0).all(1, keepdim=True)
    agree = ((fused == 0).all(1) == (stepwise == 0).all(1)).float().mean()
    assert agree > 0.97  # the edge of the black part may fall a pixel apart
    assert ((fused - stepwise).abs() * ~black).mean() < 0.01


def test_what_a_rotation_brings_in_is_black_and_not_from_outside_the_crop():
    images = torch.ones(64, 3, 32, 32)
    view = Stack.rrc_plus("rot360")(images, seeded())
    for image, g in zip(view.images, view.g["rot360"], strict=True):
        alone = GROUPS["rot360"].apply(torch.ones(1, 3, 32, 32), g[None])[0]
        assert torch.allclose(image, alone, atol=1e-5)  # as if the crop were the whole world
    assert (view.images == 0).any()


def test_the_disc_masks_every_view():
    view = Stack.rrc_plus(rot360(corners="circle"))(torch.ones(32, 3, 32, 32), seeded())
    assert ((view.images > 0.5) == (view.images[:1] > 0.5)).all()
    assert view.images[0, 0, 0, 0] == 0


def test_the_tracked_angle_has_the_right_sign_under_flips():
    """Turning a view back by its g gives an upright image, flipped or not."""
    images = smooth(64)
    stack = Stack([Stage(GROUPS["hflip"], tracked=True), Stage(GROUPS["rot360"], tracked=True)])
    view = stack(images, seeded(1))
    back = GROUPS["rot360"].apply(view.images, 1 - view.g["rot360"])
    upright = torch.where((view.g["hflip"] == 0.75).view(-1, 1, 1, 1), images.flip(3), images)
    assert (back - upright).abs()[..., inside(margin=3)].max() < 0.05
    assert [g.name for g in Stack.full("rot360").tracked] == ["rot360"]
    order = [stage.group.name for step in Stack.full(("rot360", "vflip")).stages for stage in step.stages]
    assert order.index("rot360") > max(order.index("hflip"), order.index("vflip"), order.index("scale"))


def test_the_mild_stack_colours_before_the_disc_and_turns_last():
    stack = Stack.mild([rot360(corners="circle"), "hflip"], area=(0.5, 1.0))
    assert [[stage.group.name for stage in step.stages] for step in stack.stages] == [
        *(["brightness", "contrast", "saturation"], ["scale"], ["hflip"], ["rot360"])
    ]
    assert [group.name for group in stack.tracked] == ["hflip", "rot360"]
    hidden = ~inside(margin=-1)
    assert hidden.any()
    assert not stack(smooth(64), seeded()).images[:, :, hidden].any()
    colours = Stack.mild(["brightness", "contrast", "saturation"])
    assert [step.stages[0].group.name for step in colours.stages[:2]] == ["scale", "hflip"]


def test_the_full_stack_has_the_papers_probabilities():
    n = 6000
    images = torch.rand(n, 3, 8, 8, generator=seeded()) * 0.5 + torch.tensor([0.4, 0.0, 0.2]).view(3, 1, 1)
    stack = Stack.full(("hflip", "grayscale", "hue", "brightness"))
    view = stack(images, seeded(1))
    grey = (view.images - view.images.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-4
    assert grey.float().mean() == pytest.approx(0.2, abs=0.02)
    assert (view.g["grayscale"] == 1).float().mean() == pytest.approx(0.2, abs=0.02)
    assert torch.equal(grey, view.g["grayscale"] == 1)
    assert (view.g["hflip"] == 0.75).float().mean() == pytest.approx(0.5, abs=0.02)
    # The jitter's four stages share one coin of 0.8; what it skips has the identity.
    assert (view.g["hue"] == 0.5).float().mean() == pytest.approx(0.2, abs=0.02)
    assert torch.equal(view.g["hue"] == 0.5, view.g["brightness"] == 0.5)
    blur = Stack([Stage(Blur(), 0.5)]).draw(n, (8, 8), seeded())
    assert (blur.g[0] == 0).float().mean() == pytest.approx(0.5, abs=0.02)


def test_a_skipped_stage_has_the_identity_and_leaves_the_image():
    images = torch.rand(40, 3, 16, 16)
    for name, group in GROUPS.items():
        view = Stack([Stage(group, probability=0.0, tracked=True)])(images, seeded())
        assert torch.equal(view.g[name], torch.full((40,), group.identity))
        assert torch.allclose(view.images, images, atol=1e-5), name


def test_a_half_skipped_crop_leaves_the_skipped_whole():
    images = torch.rand(200, 3, 16, 16)
    view = Stack([Stage(GROUPS["scale"], probability=0.5, tracked=True)])(images, seeded())
    skipped = view.g["scale"] == 1
    assert 70 < skipped.sum() < 130
    assert torch.allclose(view.images[skipped], images[skipped], atol=1e-5)
    assert (view.images[~skipped] - images[~skipped]).abs().mean(dim=(1, 2, 3)).min() > 1e-3


def test_the_blur_of_the_full_stack_may_be_left_out():
    usual, without, rare = Stack.full(), Stack.full(blur=0.0), Stack.full(blur=0.1)
    assert [type(stage.group) for stage in usual.stages[-1:]] == [Blur]
    assert len(without.stages) == len(usual.stages) - 1
    assert not any(isinstance(stage.group, Blur) for step in without.stages for stage in step.stages)
    assert (usual.stages[-1].probability, rare.stages[-1].probability) == (0.5, 0.1)


def test_rrc_plus_one_uses_the_full_stacks_probability():
    chances = {name: Stack.rrc_plus(name).stages[-1].probability for name in GROUPS}
    assert chances == {
        **dict.fromkeys(("rot4", "rot360", "hflip", "vflip", "scale"), 1.0),
        **dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 0.8),
        "grayscale": 0.4,
    }


def test_the_jitters_order_is_drawn_once_a_batch():
    stack, generator = Stack.full("hue"), seeded()
    orders = {stack.draw(2, (8, 8), generator).orders for _ in range(200)}
    assert len(orders) == 24


def test_size_resizes():
    images = smooth(4)
    view = Stack.rrc_plus("rot360", size=16)(images, seeded())
    assert view.images.shape == (4, 3, 16, 16)
    plain = Stack([Stage(GROUPS["hue"], probability=0.0)], size=16)(images, seeded()).images
    assert (plain - torch.nn.functional.avg_pool2d(images, 2)).abs().max() < 1e-3
    oblong = Stack.rrc_plus("rot360", size=(12, 20))(images, seeded())
    assert oblong.images.shape == (4, 3, 12, 20)


def test_area_is_an_option():
    view = Stack.rrc_plus("scale", area=(0.7, 1.0))(torch.rand(500, 3, 8, 8), seeded())
    assert view.g["scale"].min() > (0.72 - 0.2) / 0.8 - 0.05


def test_without_takes_a_group_out():
    stack = Stack.full(("rot360", "hue")).without("rot360", "hue", size=8)
    names = [stage.group.name for step in stack.stages for stage in step.stages]
    assert "rot360" not in names
    assert "hue" not in names
    assert "saturation" in names
    assert stack.size == (8, 8)
    assert stack.tracked == ()


def test_gradients_flow_through_a_stack():
    images = torch.rand(3, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    stack = Stack.full("rot360")
    drawn = stack.draw(3, (8, 8), seeded(4))
    stack.render(images, drawn).images.sum().backward()
    gradient, images = images.grad, images.detach()
    step = torch.rand_like(images) * 1e-7
    moved = stack.render((images + step).clamp(0, 1), drawn).images.sum() - stack.render(images, drawn).images.sum()
    assert float(moved) == pytest.approx(float((gradient * step).sum()), rel=1e-2)


class Speckle(Group):
    """A group with nuisance of its own."""

    name, unit = "speckle", "amount"

    def transform(self, images, g, generator=None):
        if generator is None:
            return images
        noise = torch.rand(images.shape, generator=generator, dtype=images.dtype)
        return torch.lerp(images, noise, g.view(-1, 1, 1, 1).to(images.dtype))


def test_a_users_group_with_nuisance_is_repeatable():
    stack = Stack([Stage(GROUPS["scale"]), Stage(Speckle(), tracked=True)])
    images = torch.rand(300, 3, 32, 32)
    first, second = (stack(images, seeded(9)).images for _ in range(2))
    assert torch.equal(first, second)
    assert (first[0] - first[-1]).abs().mean() > 0.01


def test_an_empty_stack_returns_the_images():
    images = torch.rand(2, 3, 4, 4)
    view = Stack([])(images, seeded())
    assert torch.equal(view.images, images)
    assert view.g == {}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Stage("rot360"), "takes a Group"),
        (lambda: Stage(GROUPS["hue"], probability=1.5), "probability"),
        (lambda: Jitter((Stage(GROUPS["rot360"]),)), "leave pixels"),
        (lambda: Stack([Stage(GROUPS["hue"], tracked=True)] * 2), "tracked twice"),
        (lambda: Stack.rrc_plus("hues"), "did you mean 'hue'"),
        (lambda: Stack.full("hue")(torch.rand(2, 1, 8, 8), seeded()), "3 channels"),
        (lambda: Stack.full("hue")(torch.rand(3, 8, 8), seeded()), "shape"),
        (lambda: Stack.full("hue")(torch.zeros(3, 8, 8, dtype=torch.uint8), seeded()), "shape"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


def test_grey_images_go_through_geometric_stacks():
    assert Stack.rrc_plus("rot360")(torch.rand(4, 1, 28, 28), seeded()).images.shape == (4, 1, 28, 28)


def test_every_geometric_group_of_the_registry_is_one():
    geometric = {name for name, group in GROUPS.items() if isinstance(group, Geometric)}
    assert geometric == {"rot4", "rot360", "hflip", "vflip", "scale"}


class Wide(type(GROUPS["hue"])):
    span = (-0.5, 0.5)


def test_a_group_of_your_own_takes_the_place_of_the_usual_one():
    wide, near = Wide(), Scale((0.8, 1.0))
    for stack in (Stack.full([wide, near]), Stack.rrc_plus([wide, near])):
        assert {id(group) for group in stack.tracked} == {id(wide), id(near)}
    for name in ("scale", GROUPS["scale"]):
        for make in (Stack.full, Stack.rrc_plus):
            assert make(name, area=(0.5, 1.0)).tracked[0].area == (0.5, 1.0)


class Specks(Group):
    """Every pixel may turn white, more of them as g grows; which ones is left to chance."""

    name, unit = "specks", "share"

    def transform(self, images, g, generator=None):
        if generator is None:
            return images.clone()
        noise = torch.rand(images.shape, generator=generator, dtype=images.dtype)
        return torch.where(noise < 0.5 * g.view(-1, 1, 1, 1), 1.0, images)


NUISANCE = {
    "always": lambda: Stack([Stage(Specks(), tracked=True)]),
    "now and then": lambda: Stack([Stage(GROUPS["rot360"]), Stage(Specks(), 0.5, tracked=True), Stage(Blur())]),
    "among others in any order": lambda: Stack([Jitter((Stage(GROUPS["hue"]), Stage(Specks(), tracked=True)), 0.8)]),
}


@pytest.mark.parametrize("name", NUISANCE)
def test_what_a_group_leaves_to_chance_does_not_depend_on_how_the_batch_is_cut(name):
    stack = NUISANCE[name]()
    images = torch.rand(40, 3, 16, 16, generator=seeded())
    drawn = stack.draw(40, (16, 16), seeded(3))
    whole = stack.render(images, drawn).images
    for rows in (slice(0, 7), slice(7, 40), slice(13, 14), slice(-5, None)):
        assert torch.equal(stack.render(images[rows], drawn[rows]).images, whole[rows])
    with torch.enable_grad():  # nothing is overwritten then
        kept = stack.render(images.clone().requires_grad_(), drawn).images
    assert torch.allclose(kept.detach(), whole, atol=1e-6)


def test_what_a_group_leaves_to_chance_does_not_depend_on_the_memory(monkeypatch):
    stack = NUISANCE["now and then"]()
    images = torch.rand(600, 3, 32, 32, generator=seeded())  # cut into parts, of another size if memory is kept
    views = []
    for kept in (True, False):
        monkeypatch.setattr(allocator, "kept", kept)
        views.append(stack(images, seeded(3)).images)
    assert torch.equal(*views)


def test_what_a_group_leaves_to_chance_differs_between_samples_and_calls():
    stack = Stack([Stage(Specks(), tracked=True)])
    drawn = stack.draw(8, (16, 16), seeded(3))
    same = stack.render(
        torch.zeros(8, 3, 16, 16), type(drawn)((torch.full((8,), 0.9),), (), (), drawn.seed, ("specks",))
    )
    patterns = {tuple(image.flatten().tolist()) for image in same.images}
    assert len(patterns) == 8
    generator = seeded(3)
    first, second = (stack(torch.zeros(8, 3, 16, 16), generator).images for _ in range(2))
    assert not torch.equal(first, second)
