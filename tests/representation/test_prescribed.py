"""The prescribed action: the properties of section 4.6 and Appendix B, for every layout."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet.representation import Axis, Concatenated, Flat, Gaussian, Joint, Table, VonMises, act, recover, shift

PROPERTY = settings(max_examples=60, deadline=None)
element = st.floats(0, 1)


@st.composite
def scenes(draw):
    """A layout of one or two axes, features, and the name of one axis."""
    target = lambda: draw(st.sampled_from([Gaussian, VonMises]))(sigma=draw(st.floats(0.1, 0.3)))  # noqa: E731
    shape = draw(st.sampled_from(["table", "joint", "concatenated"]))
    first = Axis("a", draw(st.integers(4, 64)), target())
    second = Axis("b", draw(st.integers(4, 12)), target())
    content = draw(st.integers(1, 5))
    if shape == "table":
        layout, name = Table(content, first), "a"
    else:
        axes = [first, second] if draw(st.booleans()) else [second, first]
        layout = (Joint if shape == "joint" else Concatenated)(content, axes)
        name = draw(st.sampled_from(["a", "b"]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    z = 2 * torch.randn(3, layout.dim, generator=generator, dtype=torch.float64)
    return layout, z, name


def distance(layout, name, g, h):
    away = g - h
    return (away - away.round()).abs() if layout.find(name).target.cyclic else away.abs()


def near(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


@PROPERTY
@given(scenes(), element)
def test_the_marginal_becomes_the_target(scene, g):
    layout, z, name = scene
    axis = layout.find(name)
    marginal = layout.group_logits(act(z, layout, name, g), name).softmax(-1)
    near(marginal, axis.target.masses(torch.full((3,), g, dtype=torch.float64), axis.bins))


@PROPERTY
@given(scenes(), st.tuples(element, element, element))
def test_the_element_is_recovered(scene, elements):
    layout, z, name = scene
    g = torch.tensor(elements, dtype=torch.float64)
    found = recover(act(z, layout, name, g), layout, name).g
    assert distance(layout, name, found, g).max() < 1e-3


@PROPERTY
@given(scenes(), element)
def test_content_and_the_other_marginals_stay(scene, g):
    layout, z, name = scene
    moved = act(z, layout, name, g)
    near(layout.content(moved), layout.content(z))
    for axis in layout.axes:
        if axis.name != name:
            near(layout.group_logits(moved, axis).softmax(-1), layout.group_logits(z, axis).softmax(-1))


@PROPERTY
@given(scenes(), element, element)
def test_the_last_action_wins(scene, a, b):
    layout, z, name = scene
    near(act(act(z, layout, name, a), layout, name, b), act(z, layout, name, b))


@PROPERTY
@given(scenes(), element, element, element)
def test_shifts_undo_and_compose(scene, start, middle, end):
    layout, z, name = scene
    z = act(z, layout, name, start)
    there = shift(z, layout, name, middle - start)
    near(shift(there, layout, name, start - middle), z)
    near(shift(there, layout, name, end - middle), shift(z, layout, name, end - start))
    near(there, act(z, layout, name, middle))


@PROPERTY
@given(scenes(), element, st.floats(-2, 2))
def test_shift_wraps_on_the_circle_and_clamps_on_the_interval(scene, g, by):
    layout, z, name = scene
    z = act(z, layout, name, g)
    end = (g + by) % 1 if layout.find(name).target.cyclic else min(max(g + by, 0.0), 1.0)
    near(shift(z, layout, name, by), act(z, layout, name, end))


def test_beta_sets_the_mean_logit_of_each_sample():
    layout = Table(4, Axis("a", 8, Gaussian(0.2)))
    z = torch.randn(3, 32, dtype=torch.float64)
    beta = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    moved = act(z, layout, "a", 0.3, beta=beta)
    near(layout.group_logits(moved, "a").mean(-1), beta, 1e-12)
    near(
        layout.group_logits(moved, "a").softmax(-1),
        layout.group_logits(act(z, layout, "a", 0.3), "a").softmax(-1),
        1e-12,
    )
    near(layout.group_logits(act(z, layout, "a", 0.3, beta=2.0), "a").mean(-1), torch.full((3,), 2.0).double(), 1e-12)


def test_rows_keep_their_differences():
    """T_g moves column means only: what tells two rows of content apart is untouched."""
    layout = Table(4, Axis("a", 8, VonMises(0.2)))
    z = torch.randn(3, 32, dtype=torch.float64)
    before, after = z.view(3, 4, 8), act(z, layout, "a", 0.7).view(3, 4, 8)
    near(after - after.mean(1, keepdim=True), before - before.mean(1, keepdim=True), 1e-12)


@pytest.mark.parametrize("target", [Gaussian(0.2), VonMises(0.2)])
@pytest.mark.parametrize("kind", ["table", "joint", "concatenated"])
def test_gradients(kind, target):
    a, b = Axis("a", 5, target), Axis("b", 4, Gaussian(0.2))
    layout = {"table": Table(2, a), "joint": Joint(2, [b, a]), "concatenated": Concatenated(2, [b, a])}[kind]
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(2, layout.dim, dtype=torch.float64, generator=generator, requires_grad=True)
    g = torch.tensor([0.31, 0.62], dtype=torch.float64, requires_grad=True)
    beta = torch.tensor([0.1, -0.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, g: act(z, layout, "a", g), (z, g))
    assert torch.autograd.gradcheck(lambda z, g, beta: act(z, layout, "a", g, beta), (z, g, beta))
    by = torch.tensor([0.11, -0.07], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, by: shift(z, layout, "a", by), (z, by), atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_type_of_the_features_is_kept(dtype):
    layout = Table(4, Axis("a", 8, VonMises(0.2)))
    z = torch.randn(3, 32).to(dtype)
    assert act(z, layout, "a", 0.2).dtype == dtype
    assert shift(z, layout, "a", torch.tensor([0.2])).dtype == dtype


def test_axes_are_named_in_errors():
    with pytest.raises(ValueError, match="no axis 'b'; this model has a"):
        act(torch.zeros(1, 32), Table(4, Axis("a", 8, VonMises(0.2))), "b", 0.2)
    with pytest.raises(ValueError, match="this model has none"):
        recover(torch.zeros(1, 32), Flat(32), "a")


@pytest.mark.parametrize("make", [Joint, Concatenated])
def test_actions_trace_into_one_graph(make):
    torch._dynamo.reset()
    layout = make(3, [Axis("a", 8, VonMises(0.2)), Axis("b", 4, Gaussian(0.2))])
    z, g = torch.randn(5, layout.dim), torch.rand(5)
    for action in (act, shift):
        for name in ("a", "b"):
            run = lambda z, g, action=action, name=name: action(z, layout, name, g)  # noqa: E731
            compiled = torch.compile(run, backend="eager", fullgraph=True)
            torch.testing.assert_close(compiled(z, g), run(z, g))


@pytest.mark.parametrize(
    ("target", "bins", "error"),
    [
        (VonMises(0.05), 4, 1e-5),
        (Gaussian(0.05), 4, 1e-5),
        (Gaussian(0.02), 8, 1e-5),
        (VonMises(0.02), 8, 2e-3),
        (Gaussian(0.1), 2, 1e-5),
        (Gaussian(10.0), 8, 1e-3),
    ],
    ids=str,
)
def test_narrow_and_wide_targets_are_read_from_float32_features(target, bins, error):
    layout = Table(3, Axis("a", bins, target))
    g = torch.linspace(0.02, 0.98, 97)
    z = torch.randn(97, layout.dim, generator=torch.Generator().manual_seed(0))
    found = recover(act(z, layout, "a", g), layout, "a").g
    assert found.dtype == torch.float32
    assert (found - g).abs().max() < error


@pytest.mark.parametrize("target", [VonMises(1e-6), VonMises(1e6), Gaussian(1e-6), Gaussian(1e6)], ids=str)
def test_the_narrowest_and_the_widest_targets_are_numbers(target):
    masses = target.masses(torch.linspace(0, 1, 5), 8)
    assert torch.allclose(masses.sum(-1), torch.ones(5))
    assert target.estimate(masses).g.isfinite().all()
