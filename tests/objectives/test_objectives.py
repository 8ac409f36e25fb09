"""Objectives against slow oracles, at the edges of their domain, and in low precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import distance
from torch.nn import functional as F

from duet.objectives import all_gather, jensen_shannon, nt_xent


def views(n, dim=6, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, dim, generator=generator, dtype=torch.float64).to(dtype) for _ in "12")


def slow_nt_xent(first, second, temperature):
    """The double loop of the SimCLR paper."""
    rows = [row / row.norm() for row in torch.cat([first, second])]
    n, total = len(first), 0.0
    for i, anchor in enumerate(rows):
        others = [k for k in range(2 * n) if k != i]
        scores = {k: float(anchor @ rows[k]) / temperature for k in others}
        total += math.log(math.fsum(math.exp(s) for s in scores.values())) - scores[(i + n) % (2 * n)]
    return total / (2 * n)


# --- Jensen-Shannon -----------------------------------------------------------------------------------------------

raw_masses = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1)), min_size=2, max_size=12).filter(lambda p: sum(p) > 0)


@settings(max_examples=150, deadline=None)
@given(raw_masses, st.integers(0, 11), st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.99, 1.0]))
def test_jensen_shannon_equals_scipy_zeros_included(raw, turn, mix):
    p = torch.tensor([raw], dtype=torch.float64)
    p = p / p.sum()
    q = mix * p.roll(turn, -1) + (1 - mix) * p.flip(-1)
    expected = distance.jensenshannon(p[0].numpy(), q[0].numpy()) ** 2
    for dtype in (torch.float64, torch.float32):
        a, b = p.to(dtype).requires_grad_(), q.to(dtype).requires_grad_()
        value = jensen_shannon(a, b)
        assert value.dtype == dtype
        assert value.item() == pytest.approx(0 if math.isnan(expected) else expected, abs=1e-6)
        assert 0 <= value.item() <= math.log(2) + torch.finfo(dtype).eps
        for gradient in torch.autograd.grad(value.sum(), (a, b)):
            assert gradient.isfinite().all()


def test_jensen_shannon_is_zero_for_equals_and_ln_2_for_strangers():
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    assert jensen_shannon(p, p).item() == 0
    assert jensen_shannon(p, p.flip(-1)).item() == pytest.approx(math.log(2))
    assert jensen_shannon(p.expand(3, 4), p.expand(3, 4)).shape == (3,)


def test_rounding_does_not_make_jensen_shannon_negative():
    p = (3 * torch.randn(5000, 8, generator=torch.Generator().manual_seed(0))).softmax(-1)
    q = (p * (1 + 1e-6 * torch.randn(5000, 8, generator=torch.Generator().manual_seed(1)))).requires_grad_()
    value = jensen_shannon(p, q)
    assert value.min() >= 0
    (gradient,) = torch.autograd.grad(value.sum(), q)
    assert (gradient != 0).any(-1).float().mean() > 0.99  # the value is put back, not the gradient


def test_jensen_shannon_has_the_right_gradient_inside_the_simplex():
    p, q = (x.softmax(-1).requires_grad_() for x in views(3))
    assert torch.autograd.gradcheck(jensen_shannon, (p, q))


def test_jensen_shannon_pulls_an_impossible_event_back():
    p = torch.tensor([[0.0, 1.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(jensen_shannon(p, torch.tensor([[0.5, 0.5]])).sum(), p)
    assert gradient[0, 0] < -10


# --- NT-Xent ------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(2, 8), st.floats(0.02, 2), st.integers(0, 10**6))
def test_nt_xent_equals_a_double_loop(n, dim, temperature, seed):
    first, second = views(n, dim, seed)
    assert nt_xent(first, second, temperature).item() == pytest.approx(
        slow_nt_xent(first, second, temperature), abs=1e-6
    )


@pytest.mark.parametrize("chunk", [1, 3, 5, 8, 14, 100])
def test_chunks_change_neither_value_nor_gradient(chunk):
    plain, parts = ([x.clone().requires_grad_() for x in views(7)] for _ in "ab")
    whole, chunked = nt_xent(*plain), nt_xent(*parts, chunk=chunk)
    assert chunked.item() == pytest.approx(whole.item(), abs=1e-9)
    for a, b in zip(torch.autograd.grad(whole, plain), torch.autograd.grad(chunked, parts), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_gradients_of_nt_xent():
    first, second = (x.requires_grad_() for x in views(3, 4))
    for temperature in (0.03, 0.1, 1.0):
        assert torch.autograd.gradcheck(lambda a, b, t=temperature: nt_xent(a, b, t), (first, second))
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, chunk=2), (first, second))


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The number of elements of the largest tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def largest_tensor(chunk, n=64):
    first, second = (x.requires_grad_() for x in views(n, 4))
    with Largest() as largest:
        nt_xent(first, second, chunk=chunk).backward()
    return largest.elements


def kept_for_backward(chunk, n=64):
    """Elements of floating-point memory that the forward pass leaves behind, each storage counted once."""
    kept = {}

    def pack(tensor):
        if tensor.is_floating_point():
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    first, second = (x.requires_grad_() for x in views(n, 2))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = nt_xent(first, second, chunk=chunk)
    assert loss.requires_grad
    return sum(tensor.numel() for tensor in kept.values())


def test_chunks_bound_the_memory_forward_and_backward():
    assert largest_tensor(chunk=None) == 128 * 128
    assert largest_tensor(chunk=8) == 128 * 8


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_square_of_the_batch():
    assert kept_for_backward(chunk=None) > 128 * 128
    assert kept_for_backward(chunk=8) < 128 * 8
    assert kept_for_backward(chunk=8, n=128) < 3 * kept_for_backward(chunk=8, n=64)


def test_the_mask_leaves_out_only_the_anchor_itself():
    """Copies of an anchor elsewhere in the batch are candidates like any other."""
    first, second = views(4)
    first[1] = first[0]
    assert nt_xent(first, second).item() == pytest.approx(slow_nt_xent(first, second, 0.1), abs=1e-9)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_local_anchors_meet_the_candidates_of_every_rank(rank):
    blocks = [views(4, seed=seed) for seed in range(3)]
    everyone = torch.cat([F.normalize(torch.cat(block), dim=-1) for block in blocks])
    gather = lambda rows: torch.cat([everyone[: 8 * rank], rows, everyone[8 * (rank + 1) :]])  # noqa: E731
    value = nt_xent(*blocks[rank], gather=gather)
    scores = everyone @ everyone.T / 0.1
    scores.fill_diagonal_(-math.inf)
    rows = torch.arange(8) + 8 * rank
    positives = torch.arange(8).roll(4) + 8 * rank
    assert value.item() == pytest.approx(F.cross_entropy(scores[rows], positives).item(), abs=1e-12)
    assert nt_xent(*blocks[rank], gather=gather, chunk=3).item() == pytest.approx(value.item(), abs=1e-12)


def test_ranks_average_to_the_joined_batch():
    blocks = [views(4, seed=seed) for seed in range(3)]
    everyone = torch.cat([F.normalize(torch.cat(block), dim=-1) for block in blocks])
    mean = sum(nt_xent(*block, gather=lambda _: everyone) for block in blocks) / 3
    joined = nt_xent(*(torch.cat([block[k] for block in blocks]) for k in (0, 1)))
    assert mean.item() == pytest.approx(joined.item(), abs=1e-12)


def test_without_a_process_group_gathering_changes_nothing():
    first, second = views(5)
    assert torch.equal(all_gather(first), first)
    assert nt_xent(first, second, gather=all_gather).item() == pytest.approx(nt_xent(first, second).item(), abs=1e-12)


def test_mistakes_are_named():
    first, second = views(4)
    with pytest.raises(ValueError, match="one shape"):
        nt_xent(first, second[:3])
    with pytest.raises(ValueError, match="temperature must be positive"):
        nt_xent(first, second, temperature=0)
    with pytest.raises(ValueError, match="chunk must be at least 1"):
        nt_xent(first, second, chunk=0)


# --- precision ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_reduced_in_single(dtype):
    first, second = views(64, 32, dtype=dtype)
    value = nt_xent(first, second, temperature=0.05)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(slow_nt_xent(first.double(), second.double(), 0.05), abs=1e-4)
    p, q = first.softmax(-1), second.softmax(-1)
    expected = jensen_shannon(p.double(), q.double())
    torch.testing.assert_close(jensen_shannon(p, q).double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_changes_nothing(dtype):
    for precision in (torch.float32, torch.float64):
        first, second = views(16, 8, dtype=precision)
        expected = (
            nt_xent(first, second),
            nt_xent(first, second, chunk=5),
            jensen_shannon(first.softmax(-1), second.softmax(-1)),
        )
        with torch.autocast("cpu", dtype=dtype):
            found = (
                nt_xent(first, second),
                nt_xent(first, second, chunk=5),
                jensen_shannon(first.softmax(-1), second.softmax(-1)),
            )
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == precision
            assert torch.equal(a, b)


def test_autocast_around_forward_only_leaves_the_chunked_gradient_alone():
    first, second = (x.requires_grad_() for x in views(16, 8, dtype=torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nt_xent(first, second, chunk=5)
    gradient = torch.autograd.grad(loss, (first, second))
    expected = torch.autograd.grad(nt_xent(first, second), (first, second))
    for a, b in zip(gradient, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_objectives_trace_into_one_graph():
    torch._dynamo.reset()
    compile = lambda f: torch.compile(f, backend="eager", fullgraph=True)  # noqa: E731
    first, second = views(6)
    p, q = first.softmax(-1), second.softmax(-1)
    torch.testing.assert_close(compile(jensen_shannon)(p, q), jensen_shannon(p, q))
    torch.testing.assert_close(compile(lambda a, b: nt_xent(a, b, 0.2))(first, second), nt_xent(first, second, 0.2))


@pytest.mark.parametrize("objective", [nt_xent, lambda a, b: jensen_shannon(a.softmax(1), b.softmax(1)).sum()])
def test_a_second_derivative_is_refused_not_wrong(objective):
    first, second = (x.requires_grad_() for x in views(3, 4))
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        torch.autograd.grad(objective(first, second), first, create_graph=True)
