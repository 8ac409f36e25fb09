"""The laws of the groups, for arbitrary elements."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet import GROUPS
from duet.groups import rot360
from duet.groups.geometric import Scale

unit = st.floats(0, 1, width=32)
quick = settings(max_examples=40, deadline=None)


def smooth(n=2, side=33):
    """Slowly varying images, on which bilinear interpolation errs little."""
    x = torch.linspace(-1, 1, side)
    waves = [torch.sin(2 * x[None, :] + a) * torch.cos(1.5 * x[:, None] - a) for a in (0.3, 1.1, 2.0)]
    return (0.5 + 0.4 * torch.stack(waves)).expand(n, 3, side, side).contiguous()


def inside(side=33, margin=2):
    x = torch.arange(side) - (side - 1) / 2
    return x[None, :] ** 2 + x[:, None] ** 2 <= ((side - 1) / 2 - margin) ** 2


@given(a=unit, b=unit)
@quick
def test_rotations_compose(a, b):
    group, images = GROUPS["rot360"], smooth()
    twice = group.apply(group.apply(images, torch.full((2,), a)), torch.full((2,), b))
    once = group.apply(images, torch.full((2,), (a + b - group.identity) % 1))
    assert (twice - once).abs()[..., inside()].max() < 0.02


@given(g=unit)
@quick
def test_a_rotation_and_its_inverse_cancel(g):
    group, images = GROUPS["rot360"], smooth()
    back = group.apply(group.apply(images, torch.full((2,), g)), torch.full((2,), 1 - g))
    assert (back - images).abs()[..., inside()].max() < 0.02


def test_four_quarter_turns_are_the_identity():
    images = turned = torch.rand(2, 3, 15, 15)
    for count in range(1, 5):
        turned = GROUPS["rot4"].apply(turned, torch.full((2,), 0.375))
        assert torch.equal(turned, images) is (count == 4)


@given(name=st.sampled_from(["hflip", "vflip"]), side=st.integers(2, 20))
@quick
def test_flips_are_involutions(name, side):
    images = torch.rand(2, 3, side, side + 1)
    flipped = GROUPS[name].apply(images, torch.full((2,), 0.75))
    assert torch.equal(GROUPS[name].apply(flipped, torch.full((2,), 0.75)), images)


@given(name=st.sampled_from(["rot4", "rot360", "hflip", "vflip"]))
@quick
def test_a_circle_closes(name):
    images = smooth()
    ends = [GROUPS[name].apply(images, torch.full((2,), g)) for g in (0.0, 1.0)]
    assert (ends[0] - ends[1]).abs()[..., inside()].max() < 1e-4


@given(g=unit, name=st.sampled_from(["grayscale", "saturation", "hue"]))
@quick
def test_colours_leave_grey_pixels(g, name):
    images = torch.rand(2, 1, 5, 5).expand(2, 3, 5, 5)
    assert torch.allclose(GROUPS[name].apply(images, torch.full((2,), g)), images, atol=1e-6)


@given(a=st.floats(0.3, 0.7), b=st.floats(0.3, 0.7))
@quick
def test_hue_turns_add_up(a, b):
    group, images = GROUPS["hue"], torch.rand(2, 3, 6, 6)
    twice = group.apply(group.apply(images, torch.full((2,), a)), torch.full((2,), b))
    once = group.apply(images, torch.full((2,), a + b - 0.5))
    assert torch.allclose(twice, once, atol=1e-4)


@given(g=unit)
@quick
def test_the_disc_hides_the_corners_of_every_view(g):
    group, white = rot360(corners="circle"), torch.ones(1, 1, 32, 32)
    out, still = group.apply(white, torch.tensor([g])), group.apply(white, torch.tensor([0.5]))
    assert torch.equal(out > 0.5, still > 0.5)
    assert out[0, 0, 0, 0] == 0
    assert abs(float(out.mean()) - math.pi / 4) < 0.02


def test_drawn_widths_start_at_the_smallest_crop():
    g = Scale().sample(50_000, torch.Generator().manual_seed(0))
    assert 0.23 < g.min() < 0.26
    assert g.max() > 0.98


@pytest.mark.parametrize("area", [(0.2, 1.0), (0.5, 0.8), (0.9, 1.0), (0.5, 0.5), (1.0, 1.0)])
def test_sample_and_apply_together_are_random_resized_crop(area):
    """The pair (width, height) has the law of the loop that draws area and aspect and rejects what does not fit."""
    generator = torch.Generator().manual_seed(0)
    group, n = Scale(area), 40_000
    matrix = group.affine(group.sample(n, generator), (32, 32), generator).matrix
    width, height = matrix[:, 0, 0], matrix[:, 1, 1]
    slow = []
    draws = torch.rand(4 * n, 2, generator=generator, dtype=torch.float64).tolist()
    for u, v in draws:
        a, aspect = area[0] + (area[1] - area[0]) * u, math.exp(math.log(3 / 4) + math.log(16 / 9) * v)
        if a * aspect <= 1 and a / aspect <= 1:
            slow.append((math.sqrt(a * aspect), math.sqrt(a / aspect)))
    expected = torch.tensor(slow or [(1.0, 1.0)])  # of area 1 only the whole image fits, which no draw meets
    for function in (lambda w, h: w, lambda w, h: h, lambda w, h: w * h, lambda w, h: w / h):
        ours, theirs = function(width, height), function(expected[:, 0], expected[:, 1])
        quantiles = torch.tensor([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])
        assert torch.allclose(ours.quantile(quantiles), theirs.quantile(quantiles), atol=0.015)
    assert (width * height > area[0] - 1e-5).all()
    assert (width * height < area[1] + 1e-5).all()
    # Correlation too: the same marginals alone would not show that the aspect fits the width.
    if slow:
        ours, theirs = (torch.corrcoef(pairs.T)[0, 1] for pairs in (matrix[:, [0, 1], [0, 1]], expected))
        assert abs(float(ours - theirs)) < 0.02
    assert ((matrix[:, 0, 2].abs() + width) <= 1 + 1e-5).all()
    assert ((matrix[:, 1, 2].abs() + height) <= 1 + 1e-5).all()
