"""Cost: a step is a real step, and what is measured is what was run."""

import sys

import pytest
import torch

from duet.evaluation import Inapplicable, evaluate, measure_cost
from duet.paper.cost import training_step
from duet.paper.timing import medians, peak_bytes, times
from duet.evaluation.suite import open_context

from ..conftest import random_encoder


def test_every_method_is_measured_beside_simclr():
    result = evaluate(open_context(random_encoder(batch_size=8)), ["cost"], progress=False)["cost"]
    for method in ("simclr", "duet", "essl"):
        assert result.scalars[f"{method}/seconds_per_step"] > 0
        assert result.scalars[f"{method}/bytes_at_peak"] > 1000
    assert result.scalars["simclr/relative_seconds_per_step"] == 1
    assert result.provenance["batch"] == 8


def test_it_is_done_only_when_named(perfect):
    context, _ = perfect
    assert "cost" not in evaluate(context, ["retrieval"], progress=False)
    with pytest.raises(Inapplicable, match="trained here"):
        measure_cost(context)


def test_scale_has_no_essl():
    result = measure_cost(open_context(random_encoder(batch_size=8, group=["scale"])))
    assert not [key for key in result.scalars if key.startswith("essl")]


def test_a_step_moves_the_weights_and_leaves_torchs_seed_alone():
    experiment = random_encoder(batch_size=8).experiment
    images = torch.randint(256, (8, 1, 28, 28), dtype=torch.uint8)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    step = training_step(experiment, images)
    assert torch.equal(torch.rand(2), expected)
    method = step.__closure__[step.__code__.co_freevars.index("method")].cell_contents
    before = method.backbone.norm.weight.clone()
    step()
    assert not torch.equal(before, method.backbone.norm.weight)


def test_times_are_taken_in_alternating_blocks():
    calls = []
    seconds = times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=4, warm=1, block=2)
    assert {name: len(values) for name, values in seconds.items()} == {"a": 4, "b": 4}
    assert "".join(calls) == "ab" + "aaabbb" * 2
    assert set(medians(seconds)) == {"a", "b"}


def test_the_peak_counts_what_is_held_at_once():
    def hold():
        first = torch.ones(1_000_000)
        second = torch.ones(500_000)
        return first.sum() + second.sum()

    assert 6_000_000 <= peak_bytes(hold) < 6_200_000


def test_the_peak_is_taken_in_silence(capfd):
    freed = [torch.ones(10_000)]  # a block from before: the profiler would remark on its end
    peak_bytes(lambda: freed.clear())
    with pytest.raises(ZeroDivisionError):
        peak_bytes(lambda: 1 / 0)
    assert capfd.readouterr() == ("", "")
    print("still heard", file=sys.stderr)
    assert capfd.readouterr().err == "still heard\n"
