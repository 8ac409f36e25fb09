"""What every objective must do."""

import inspect

import pytest
import torch

from duet import Experiment, train
from duet.objectives import OBJECTIVES, contrast_views, find_objective

TINY = {"epochs": 1, "subset": 160, "batch_size": 32, "projector": [32, 16], "encoder": "small", "action_pairs": 0}

pytestmark = pytest.mark.parametrize("name", OBJECTIVES)


def features(count=2, n=16, dim=12):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, dim, generator=generator).requires_grad_() for _ in range(count)]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_value_and_gradient_are_finite_and_reach_every_view(name, count):
    views = features(count)
    value = contrast_views(views, find_objective(name, temperature=0.2))
    assert value.shape == ()
    assert value.isfinite()
    for gradient in torch.autograd.grad(value, views):
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


def test_views_that_agree_have_the_lower_value(name):
    first, second = features()
    contrast = find_objective(name)
    found = []
    for other in (first, second):
        torch.manual_seed(0)
        found.append(contrast(first, other).item())
    assert found[0] < found[1]


def test_it_says_its_formula_and_its_options_have_defaults(name):
    assert (OBJECTIVES[name].__doc__ or "").split("\n")[0].endswith(".")
    options = list(inspect.signature(OBJECTIVES[name]).parameters.values())[2:]
    assert all(option.default is not option.empty for option in options if option.kind is not option.VAR_POSITIONAL)


def test_a_run_trains_with_it(name, tmp_path):
    run = train(Experiment.preset("demo", contrast=name, **TINY), tmp_path / "run", quiet=True)
    rows = (run / "metrics.csv").read_text().splitlines()
    assert len(rows) > 4
    content = rows[0].split(",").index("content")
    values = [float(row.split(",")[content]) for row in rows[1:]]
    assert torch.tensor(values).isfinite().all()
    assert len(set(values)) > 1
