"""Cost: a step is a real step, and what is measured is what was run."""

import sys
from dataclasses import replace

import pytest
import torch

from duet import DuetError, Experiment
from duet.evaluation import Inapplicable, evaluate
from duet.evaluation.suite import find_evaluations, open_context
from duet.methods import METHODS, Duet, register_method
from duet.paper import Cost
from duet.paper.cost import tabulate_cost, training_step
from duet.paper.timing import medians, peak_bytes, times
from duet.training.experiment import build_method, build_optimizer, build_stack
from duet.training.step import loss_of_batch, parameter_groups

from ..conftest import random_encoder

SMALL = {"encoder": "tiny", "projector": [16], "batch_size": 8}


@pytest.fixture(autouse=True)
def _few_repeats(monkeypatch):
    monkeypatch.setattr("duet.paper.cost.REPEATS", 1)


def make_run(folder, **changes):
    """A run's folder with a model of random weights and how it is trained."""
    random_encoder(**SMALL, **changes).save(folder / "model")
    Experiment.preset("demo", **SMALL, **changes).to_yaml(folder / "config.yaml")
    return folder


def some_images(n=8, seed=0):
    return torch.randint(256, (n, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_every_method_is_measured_beside_simclr(tmp_path):
    result = evaluate(make_run(tmp_path), ["cost"], progress=False)["cost"]
    for method in ("simclr", "duet", "essl"):
        assert result.scalars[f"{method}/seconds_per_step"] > 0
        assert result.scalars[f"{method}/bytes_at_peak"] > 1000
    assert result.scalars["simclr/relative_seconds_per_step"] == 1
    assert result.provenance["batch"] == 8


def test_it_is_done_only_when_named():
    assert "cost" not in find_evaluations(None)
    assert find_evaluations(["cost"]) == ["cost"]


def test_who_does_not_say_how_it_is_trained_is_left_out(tmp_path):
    with pytest.raises(Inapplicable, match="trained here"):
        Cost().measure(open_context(random_encoder(**SMALL)))
    (make_run(tmp_path) / "config.yaml").unlink()
    with pytest.raises(Inapplicable, match="trained here"):
        Cost().measure(open_context(tmp_path))


def test_scale_has_no_essl(tmp_path):
    result = Cost().measure(open_context(make_run(tmp_path, group=["scale"])))
    assert {key.partition("/")[0] for key in result.scalars} == {"simclr", "duet"}
    with pytest.raises(DuetError, match="no meaning for scale"):
        Experiment.preset("demo", **SMALL, group=["scale"], method="essl")


@pytest.fixture
def watched():
    """A DUET that keeps, of every step, its number, the terms of the loss and the weights that it led to."""
    seen = []

    @register_method
    class Watched(Duet):
        name = "watched"

        def terms(self, *arguments):
            self.latest = super().terms(*arguments)
            return self.latest

        def after_step(self, step):
            terms = {name: float(term.detach()) for name, term in self.latest.items()}
            seen.append((step, terms, {key: value.clone() for key, value in self.state_dict().items()}))

    yield seen
    del METHODS["watched"]


def test_a_step_is_a_step_of_training(watched):
    experiment, images = Experiment.preset("demo", **SMALL, method="watched"), some_images()
    step = training_step(experiment, images, seed=5)
    step()
    step()
    assert [number for number, _, _ in watched] == [0, 1]
    # The same by hand, with a DUET that nobody watches.
    plain = replace(experiment, method="duet")
    torch.manual_seed(5)
    method, generator = build_method(plain, image_size=(28, 28)), torch.Generator().manual_seed(5)
    stack, optimizer = build_stack(plain), build_optimizer(parameter_groups(method), plain)
    for _, terms, weights in watched:
        before = method.backbone.norm.weight.clone()
        loss, latest = loss_of_batch(method, stack, images, generator)
        assert terms == pytest.approx({name: float(latest[name]) for name in ("content", "group")}, rel=1e-4)
        assert sum(terms.values()) == pytest.approx(float(loss.detach()), rel=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert not torch.equal(weights["backbone.norm.weight"], before)
        torch.testing.assert_close(weights, dict(method.state_dict()), rtol=1e-3, atol=1e-4)


def test_making_a_step_leaves_torchs_seed_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    step = training_step(Experiment.preset("demo", **SMALL), some_images())
    step()
    assert torch.equal(torch.rand(2), expected)


def test_costs_are_set_against_the_reference():
    result = tabulate_cost(
        {"simclr": {"seconds_per_step": 2.0}, "duet": {"seconds_per_step": 2.1, "peak_bytes": 5.0}},
        {"encoder": "small"},
    )
    assert result.scalars["duet/relative_seconds_per_step"] == pytest.approx(1.05)
    assert result.scalars["duet/peak_bytes"] == 5
    assert "duet/relative_peak_bytes" not in result.scalars
    with pytest.raises(ValueError, match="above 0"):
        tabulate_cost({"duet": {"seconds_per_step": 0.0}}, {})


def test_times_are_taken_in_alternating_blocks():
    calls = []
    seconds = times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=4, warm=1, block=2)
    assert {name: len(values) for name, values in seconds.items()} == {"a": 4, "b": 4}
    assert "".join(calls) == "ab" + "aaabbb" * 2


def test_the_median_leaves_out_a_slow_moment():
    assert medians({"a": [1.0, 9.0, 2.0], "b": [4.0, 1.0]}) == {"a": 2.0, "b": 2.5}


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
