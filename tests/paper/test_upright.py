"""Finding upright: what is counted is what was read, and a probe cannot be fooled into another answer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duet import DuetError
from duet.data.memory import MemoryImages
from duet.groups.geometric import rot360
from duet.paper.upright import Readings, by_kind, hardest, of_model, read_turned, turn
from duet.paper.upright_drawing import draw_readings, draw_worst
from duet.paper.upright_rivals import angle_probe, looking, quarter_probe, softmax_regression

from ..conftest import random_encoder

GROUP = rot360("circle")


def readings(errors, sure):
    turned = torch.linspace(0, 350, len(errors))
    return Readings(torch.arange(len(errors)), turned, turned + torch.tensor(errors), torch.tensor(sure))


@given(st.lists(st.tuples(st.floats(-180, 180, width=32), st.floats(0, 1, width=32)), min_size=1, max_size=40))
@settings(max_examples=25, deadline=None)
def test_the_numbers_are_those_of_a_slow_loop(rows):
    errors, sure = zip(*rows, strict=True)
    found = readings(errors, sure)
    off = [min(abs(e) % 360, 360 - abs(e) % 360) for e in errors]
    assert found.error.tolist() == pytest.approx(off, abs=1e-3)
    order = sorted(range(len(rows)), key=lambda i: -torch.tensor(sure[i]).item())
    best = order[: max(1, round(0.8 * len(rows)))]
    told = found.scalars()
    near = [not 44.99 < e < 45.01 for e in off]
    if all(near):
        assert told["within_45"] == pytest.approx(np.mean([e <= 45 for e in off]))
        assert told["surest_within_45"] == pytest.approx(np.mean([off[i] <= 45 for i in best]))
        assert told["within_45_low"] <= told["within_45"] + 1e-9 <= told["within_45_high"] + 2e-9
    assert found.surest().number.tolist() == best


def test_the_worst_are_wrong_and_the_surest_of_them_come_first():
    found = readings([100.0, 3.0, 170.0, 60.0], [0.2, 0.9, 0.4, 0.8])
    assert found.worst(2).number.tolist() == [3, 2]
    assert found.worst(9).number.tolist() == [3, 2, 0]


def test_kinds_and_classes_are_told_apart():
    found = readings([100.0, 3.0, 170.0, 60.0, 1.0, 2.0], [0.5] * 6)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    classes = ["pet-pug", "scene-sea", "pet-cat"]
    kinds = by_kind(found, labels, classes)
    assert {kind: own.number.tolist() for kind, own in kinds.items()} == {"pet": [0, 1, 4, 5], "scene": [2, 3]}
    assert [row["class"] for row in hardest(found, labels, classes, least=2)] == ["scene-sea", "pet-pug", "pet-cat"]
    assert hardest(found, labels, classes, least=3) == []


@pytest.mark.parametrize("quarters", [False, True])
def test_a_reader_that_knows_is_never_off_and_one_that_guesses_is_off_by_90_degrees(quarters):
    images = MemoryImages("black", "train", torch.zeros(400, 3, 8, 8, dtype=torch.uint8))

    def honest(shown, snapped):
        assert snapped == quarters
        return torch.zeros(len(shown)), torch.ones(len(shown))

    found = read_turned(honest, images, GROUP, quarters, seed=3)
    told = Readings(found.number, found.turned, found.turned, found.sure)
    assert float(told.error.max()) == 0
    assert found.number.tolist() == list(range(400))
    expected = {0.0, 90.0, 180.0, 270.0} if quarters else None
    assert expected is None or set(found.turned.tolist()) == expected
    assert float(found.error.mean()) == pytest.approx(90, abs=12)
    assert torch.equal(read_turned(honest, images, GROUP, quarters, seed=3).turned, found.turned)


def test_images_are_turned_counter_clockwise_through_the_disc():
    pixels = torch.zeros(1, 3, 9, 9)
    pixels[..., 1, 4] = 1  # a dot at the top
    assert turn(pixels, GROUP, torch.tensor([0.25]))[0, 0, 4, 1] == pytest.approx(1, abs=1e-4)


def test_a_models_own_reading_is_asked():
    encoder = random_encoder(corners="circle")
    shown = torch.rand(5, 1, 28, 28)
    degrees, sure = of_model(encoder)(shown, True)
    assert set((degrees % 90).tolist()) == {0.0}
    assert degrees.shape == sure.shape == (5,)


def test_softmax_regression_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    generator = torch.Generator().manual_seed(0)
    y = torch.randint(4, (300,), generator=generator)
    x = torch.randn(300, 6, generator=generator) + torch.eye(4, 6)[y]
    weight, bias = softmax_regression(x, y, 0.1, 300)
    oracle = LogisticRegression(C=1 / (0.1 * len(x)), tol=1e-8, max_iter=2000).fit(x.numpy(), y.numpy())
    expected = oracle.predict_proba(x.numpy())
    assert (x @ weight + bias).softmax(1).numpy() == pytest.approx(expected, abs=2e-3)


def first_quarter(images):
    """Scores of four angles by where the image is brightest: right, top, left, bottom -> as upright at the top."""
    edge = [images[..., 0, :], images[..., :, 0], images[..., -1, :], images[..., :, -1]]
    return torch.stack([part.flatten(1).mean(1) for part in edge], 1)


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_copies_that_are_turned_back_agree(turns):
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    one, one_sure = looking(first_quarter, 1)(images, True)
    more, more_sure = looking(first_quarter, turns)(images, True)
    assert torch.equal(one, more)
    assert torch.allclose(one_sure, more_sure)
    quarter, _ = looking(first_quarter, turns)(torch.rot90(images, 1, (2, 3)), True)
    assert torch.equal(torch.remainder(quarter - one, 360), torch.full((6,), 90.0))


def test_three_copies_are_refused():
    with pytest.raises(DuetError, match="1, 2 or 4"):
        looking(first_quarter, 3)


def bright_top(count, seed):
    """Images that are bright at the top, in noise."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(count, 3, 16, 16, generator=generator) * 0.3
    pixels[:, :, 2:6, 5:11] += 0.7
    return MemoryImages("bright", "train", (255 * pixels.clamp(0, 1)).byte())


def test_the_four_way_probe_learns_what_is_up():
    from duet.networks.trunk import build_trunk

    trunk = build_trunk("tests.small_trunk:build", ["5"], 4, (16, 16))
    scores = quarter_probe(trunk, bright_top(60, 0), bright_top(20, 1), GROUP)
    found = read_turned(looking(scores, 4), bright_top(40, 2), GROUP, quarters=True)
    assert found.scalars()["within_45"] == 1


def test_the_angles_probe_reads_any_features():
    encoder = random_encoder(16, method="simclr", weight=None, corners="circle", channels=3)
    scores = angle_probe(encoder, bright_top(150, 0), GROUP)
    found = read_turned(looking(scores, 1), bright_top(60, 1), GROUP)
    assert found.scalars()["median_degrees"] < 30


def test_pictures_are_drawn_of_all_and_of_none():
    images = bright_top(4, 0)
    found = readings([100.0, 3.0, 170.0, 60.0], [0.2, 0.9, 0.4, 0.8])
    assert draw_readings(found).axes
    assert len(draw_worst(found.worst(3), images, GROUP).axes) == 24
    draw_worst(found.worst(0), images, GROUP)
