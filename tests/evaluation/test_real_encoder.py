"""A network that was trained on ImageNet, on photographs: at which layer does it stop knowing the angle?"""

import os

import pytest

from duet.data import open_images
from duet.evaluation import Context, Sizes, as_subject
from duet.evaluation.layer import layer_contexts
from duet.evaluation.spectrum import Harmonics
from duet.groups import GROUPS

from ..efficientnet import build

pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("DUET_DATA"), reason="DUET_DATA is not set: no photographs to score"),
]
SIZES = Sizes(train=60, test=60, images=40, sweep=4, probe=240, views=3)


def test_a_grid_in_the_middle_knows_the_angle_and_the_mean_at_the_end_does_not():
    train = open_images("photos128", image_size=64, subset=300)
    test = open_images("photos128", "test", image_size=64, subset=144)
    network, group = build(), GROUPS["rot360"].configured(corners="circle")
    subject = as_subject(network, group, test.sample(2, 0), name="efficientnet_lite0", batch=64)
    context = Context(subject, train, test, group, SIZES)
    found = {}
    for reading, contexts in layer_contexts(context, network, ["_blocks.4", "_blocks.15"], [group]):
        found[reading.title] = Harmonics().measure(contexts["rot360"]).scalars["median_difference_error_degrees"]
    assert set(found) == {f"_blocks.{i} ({kind})" for i in (4, 15) for kind in ("pooled", "grid")}
    assert found["_blocks.4 (grid)"] < 10
    assert found["_blocks.15 (pooled)"] > 30
