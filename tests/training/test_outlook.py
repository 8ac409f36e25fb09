"""What is refused or warned of before the first step."""

import logging

import pytest
import torch
from torch import nn

from duet.error import DuetError
from duet.networks import build_backbone, wrap
from duet.training import train
from duet.training.outlook import check_batch, check_scales, warn_of_few_steps, warn_of_small_images


@pytest.mark.parametrize(
    ("changes", "count", "line"),
    [
        ({"batch_size": 512}, 160, "160 images make no batch of 512 (--batch-size 512): give --batch-size 160 or less"),
        (
            {"batch_size": 64, "accumulate": 4, "exact": True},
            160,
            "160 images make no batch of 256 (--batch-size 64 x --accumulate 4): give --batch-size 40 or less",
        ),
        ({"batch_size": 32, "devices": 2}, 31, "31 images make no batch of 32"),
        ({"batch_size": 2, "accumulate": 4, "exact": True}, 3, "there must be more images"),
    ],
    ids=str,
)
def test_a_batch_larger_than_the_set_is_refused_with_its_numbers(tiny, changes, count, line):
    with pytest.raises(DuetError) as refused:
        check_batch(count, tiny(**changes))
    assert line in str(refused.value)
    check_batch(tiny(**changes).joined_batch, tiny(**changes))


def test_it_is_refused_before_anything_is_built(tmp_path, tiny, monkeypatch, caplog):
    monkeypatch.setattr("duet.training.run._method", lambda *_: pytest.fail("a network was built"))
    with caplog.at_level(logging.INFO), pytest.raises(DuetError, match="160 images make no batch of 512"):
        train(tiny(batch_size=512), tmp_path / "run", quiet=True)
    assert "how sure" not in caplog.text


def test_several_processes_share_the_batch(tiny):
    check_batch(32, tiny(batch_size=32, devices=2))


@pytest.mark.parametrize(
    ("temperature", "weight", "line"),
    [
        (1e-40, None, "temperature must lie from 1e-18 to 1e+06"),
        (1e30, 10.0, "it is 1e+30, and 0.1 is usual"),
        (0.1, 1e38, "weight must be at most 1e+18"),
    ],
)
def test_scales_that_overflow_are_refused(temperature, weight, line):
    with pytest.raises(DuetError, match="float32 cannot hold") as refused:
        check_scales(temperature, weight)
    assert line in str(refused.value)


@pytest.mark.parametrize(("temperature", "weight"), [(1e-18, None), (1e6, 0.0), (0.1, 1e18), (0.1, 1000.0)])
def test_scales_at_the_edge_still_move_an_optimiser(temperature, weight):
    """Adam divides by the root of the mean square: where that overflows, a step is exactly zero."""
    check_scales(temperature, weight)
    for scale, moves in ((weight or 1.0, True), (1 / temperature, True), (1e25, False)):
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.Adam([parameter], lr=0.1)
        (scale * parameter).sum().backward()
        optimizer.step()
        assert (parameter.item() != 1.0) == moves


@pytest.mark.parametrize("changes", [{"temperature": 1e-40}, {"weight": 1e38}], ids=str)
def test_a_run_with_such_a_scale_is_refused_before_images_are_opened(tmp_path, tiny, changes):
    with pytest.raises(DuetError, match="float32 cannot hold"):
        train(tiny(data="no-such-set", **changes), tmp_path / "run", quiet=True)


def test_a_handful_of_steps_is_warned_of_with_its_numbers(tiny, caplog):
    warn_of_few_steps(170, tiny())
    assert "15 step(s) in all teach little: 3 epoch(s) of 5 batch(es) of 32, from 170 images" in caplog.text
    assert "--epochs 200 would make 1000 steps" in caplog.text
    caplog.clear()
    warn_of_few_steps(170, tiny(accumulate=2))
    assert "8 step(s)" in caplog.text
    assert "--epochs 400" in caplog.text


def test_enough_steps_are_no_word_worth(tiny, caplog):
    warn_of_few_steps(170, tiny(epochs=20))
    assert not caplog.records


@pytest.mark.parametrize(("size", "warned"), [((16, 16), False), ((28, 28), False), ((15, 28), True), ((4, 4), True)])
def test_images_smaller_than_the_stride_are_warned_of(tiny, caplog, size, warned):
    warn_of_small_images(build_backbone("small", channels=1), tiny(), size)
    assert bool(caplog.records) == warned
    if warned:
        assert f"{size[1]} x {size[0]} are smaller than the stride of small, " in caplog.text
        assert "--image-size" in caplog.text


def test_images_that_a_network_cannot_take_are_refused(tiny):
    body = nn.Sequential(nn.Conv2d(1, 8, 5, stride=4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(DuetError, match=r"cannot take images of 4 x 4: .*; give another --image-size"):
        warn_of_small_images(wrap(body, channels=1, width=8), tiny(), (4, 4))


def test_training_goes_on_after_such_warnings(tmp_path, tiny, caplog):
    run = train(tiny(epochs=1, subset=64, encoder="tiny", image_size=8, action_pairs=0), tmp_path / "run", quiet=True)
    assert (run / "model" / "config.json").exists()
    assert "teach little" in caplog.text
    assert "smaller than the stride of tiny" in caplog.text
