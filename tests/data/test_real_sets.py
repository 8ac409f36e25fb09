"""The sets under $DUET_DATA, as a user opens them."""

import os

import pytest

from duet.data import open_images

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("DUET_DATA"), reason="DUET_DATA is not set: no real images to test with"),
]


@pytest.mark.parametrize(
    ("name", "classes", "side"),
    [("mnist", 10, 28), ("cifar10", 10, 32), ("cifar100", 100, 32), ("pets", 37, 32), ("flowers102", 102, 32)],
)
def test_a_named_set_opens_with_its_classes(name, classes, side):
    train = open_images(name, subset=4 * classes)
    test = open_images(name, "test", subset=classes)
    assert train.shape == test.shape == (3, side, side)
    assert train.classes == test.classes
    assert train.labels.bincount().tolist() == [4] * classes
    assert train.skipped == test.skipped == ()


def test_a_stream_of_a_real_set_equals_its_memory():
    memory = open_images("pets", "test", subset=100)
    streamed = open_images("pets", "test", subset=100, storage="stream", workers=2)
    for (a, x), (b, y) in zip(memory.batches(32, 0, 0), streamed.batches(32, 0, 0), strict=True):
        assert a.equal(b)
        assert x.equal(y)


def test_cifar10_has_its_well_known_statistics():
    mean, std = open_images("cifar10").statistics()
    assert mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.005)
    assert std.tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=0.005)
