"""What every group must do, registered by us or by a user."""

import pytest
import torch

from duet import GROUPS, register_group
from duet.groups import Blur, Geometric, Group, Rotation, rot360


class Gamma(Group):
    """A user's own group, as in the README."""

    name, unit, identity, span = "gamma", "log2 exponent", 0.5, (-1.0, 1.0)

    def transform(self, images, g, generator=None):
        return images.clamp(min=1e-6) ** torch.exp2(self.parameter(g)).to(images.dtype).view(-1, 1, 1, 1)


@pytest.fixture(params=[*GROUPS, "rot360-circle", "blur", "gamma"])
def group(request, monkeypatch):
    if request.param == "rot360-circle":
        return rot360(corners="circle")
    if request.param == "blur":
        return Blur()
    if request.param == "gamma":
        monkeypatch.delitem(GROUPS, "gamma", raising=False)
        return register_group(Gamma())
    return GROUPS[request.param]


@pytest.fixture(autouse=True)
def _registry_is_left_as_it_was():
    yield
    GROUPS.pop("gamma", None)


def batch(n=6, height=16, width=16, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 5, 5, generator=generator, dtype=dtype)
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=True)
    return 0.1 + 0.8 * smooth


def spread_of_g(group, n=6):
    return torch.linspace(0.03, 0.97, n)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_identity_leaves_the_image(group):
    images = batch()
    out = group.apply(images, torch.full((6,), group.identity))
    if getattr(group, "corners", "zero") == "circle":
        centre = (slice(None), slice(None), slice(4, 12), slice(4, 12))
        assert torch.allclose(out[centre], images[centre], atol=1e-6)
    else:
        assert torch.allclose(out, images, atol=1e-6)


def test_another_element_changes_the_image(group):
    images = batch()
    far = 0.0 if group.identity > 0.4 else 1.0
    far = next(iter(e for e in group.elements if e != group.identity)) if group.elements else far
    assert (group.apply(images, torch.full((6,), far)) - images).abs().mean() > 1e-3


def test_parameter_and_from_parameter_are_inverses(group):
    g = torch.linspace(0, 1, 101, dtype=torch.float64)
    assert torch.allclose(group.from_parameter(group.parameter(g)), g, atol=1e-12)
    low, high = group.span
    raw = torch.linspace(low, high, 101, dtype=torch.float64)
    assert torch.allclose(group.parameter(group.from_parameter(raw)), raw, atol=1e-10)
    assert float(group.from_parameter(low)) == pytest.approx(0, abs=1e-6)
    assert float(group.from_parameter(high)) == pytest.approx(1, abs=1e-6)


def test_samples_are_elements(group):
    g = group.sample(2000, seeded())
    assert g.shape == (2000,)
    assert g.min() >= 0
    assert g.max() <= 1
    if group.elements is not None:
        assert set(g.tolist()) == set(group.elements)
    else:
        assert len(g.unique()) > 1900


def test_same_generator_state_same_result(group):
    images = batch()
    first, second = (group.apply(images, group.sample(6, gen), gen) for gen in (seeded(3), seeded(3)))
    assert torch.equal(first, second)


def test_without_generator_it_is_a_function(group):
    images, g = batch(), spread_of_g(group)
    assert torch.equal(group.apply(images, g), group.apply(images, g))


def test_samples_do_not_see_each_other(group):
    images, g = batch(), spread_of_g(group)
    together = group.apply(images, g)
    alone = torch.cat([group.apply(images[i : i + 1], g[i : i + 1]) for i in range(6)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_input_is_not_overwritten(group):
    images, g = batch(), spread_of_g(group)
    before = images.clone()
    group.apply(images, g, seeded())
    assert torch.equal(images, before)


def test_in_place_form_gives_the_same(group):
    images, g = batch(), spread_of_g(group)
    assert torch.allclose(group.transform_(images.clone(), g), group.transform(images, g), atol=1e-6)


@pytest.mark.parametrize("size", [(16, 16), (7, 12), (13, 9), (1, 1), (2, 3)])
def test_range_and_shape_for_any_size(group, size):
    images = torch.rand(5, 3, *size, generator=seeded(1))
    images[0], images[1] = 0, 1
    for g in (torch.linspace(0, 1, 5), torch.full((5,), group.identity)):
        out = group.apply(images, g, seeded(2))
        assert out.shape == images.shape
        assert out.min() >= -1e-6
        assert out.max() <= 1 + 1e-6
        assert not out.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtype_is_kept(group, dtype):
    out = group.apply(batch(dtype=torch.float32).to(dtype), spread_of_g(group))
    assert out.dtype == dtype
    assert not out.isnan().any()


def test_uint8_is_converted(group):
    images = (batch() * 255).round().to(torch.uint8)
    g = spread_of_g(group)
    assert torch.allclose(group.apply(images, g), group.apply(images.float() / 255, g), atol=1e-6)


def test_gradient_in_the_image(group):
    images = batch(2, 4, 5, torch.float64).requires_grad_()
    g = torch.tensor([0.31, 0.83], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: group.apply(x, g), images)


def test_gradient_in_g(group):
    images = batch(2, 5, 5, torch.float64)
    if isinstance(group, Rotation):  # the black surroundings jump: look at the middle only

        def of_g(g):
            return group.apply(images, g)[:, :, 2:3, 2:3] + 0 * g.sum()

        g = torch.tensor([0.511, 0.477], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(of_g, g)
    g = torch.tensor([0.31, 0.83], dtype=torch.float64, requires_grad=True)
    out = group.apply(images, g)
    out.square().sum().backward()
    assert g.grad is not None
    assert torch.isfinite(g.grad).all()
    if not isinstance(group, Geometric):
        g = g.detach().requires_grad_()
        assert torch.autograd.gradcheck(lambda h: group.apply(images, h), g)


def test_empty_batch(group):
    assert group.apply(torch.rand(0, 3, 8, 8), torch.rand(0)).shape == (0, 3, 8, 8)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
def test_g_out_of_range_is_refused(group, bad):
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        group.apply(batch(), torch.tensor([0.5] * 5 + [bad]))


def test_wrong_shapes_are_refused(group):
    with pytest.raises(ValueError, match=r"shape \(6,\)"):
        group.apply(batch(), torch.rand(5))
    with pytest.raises(ValueError, match=r"shape \(6,\)"):
        group.apply(batch(), 0.5)
    with pytest.raises(ValueError, match="batch axis"):
        group.apply(batch()[0], torch.rand(6))
    with pytest.raises(ValueError, match="uint8"):
        group.apply(torch.ones(6, 3, 4, 4, dtype=torch.int64), torch.rand(6))
    with pytest.raises(TypeError, match="as_tensor"):
        group.apply(batch().numpy(), torch.rand(6))


def test_images_out_of_range_are_refused(group):
    images = batch()
    with pytest.raises(ValueError, match="normalisation"):
        group.apply(images * 2 - 1, torch.rand(6))
    images[2, 0, 3, 3] = float("nan")
    with pytest.raises(ValueError, match="NaN"):
        group.apply(images, torch.rand(6))


def test_grey_images(group):
    images = batch()[:, :1]
    if group.channels == 3:
        with pytest.raises(ValueError, match="expand"):
            group.apply(images, torch.rand(6))
    else:
        assert group.apply(images, spread_of_g(group)).shape == images.shape
