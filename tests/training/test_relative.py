"""Images without an upright: differences are learned where absolute angles cannot be."""

import pytest
import torch

import duet
from duet import GROUPS
from duet.data import MemoryImages, open_images
from duet.training import train

ROTATION = GROUPS["rot360"]


def turned(split, count, seed):
    """Digits, each turned once by an angle of its own: no image says which way is up."""
    pixels, labels = open_images("digits", split, channels=1, subset=count).tensors()
    generator = torch.Generator().manual_seed(seed)
    return (255 * ROTATION.apply(pixels, ROTATION.sample(count, generator))).round().to(torch.uint8), labels


def error_of_differences(encoder, images):
    """Median of |(recovered b - recovered a) - (b - a)| in degrees, on the circle."""
    generator = torch.Generator().manual_seed(5)
    a, b = (ROTATION.sample(len(images), generator) for _ in range(2))
    recovered = [encoder.embed(ROTATION.apply(images, g)).recover("rot360").g for g in (a, b)]
    off = torch.remainder(recovered[1] - recovered[0] - (b - a) + 0.5, 1) - 0.5
    return 360 * float(off.abs().median())


@pytest.mark.slow
def test_the_relative_reference_recovers_differences_twice_as_well_without_an_upright(tmp_path, tiny):
    pixels, labels = turned("train", 1000, seed=0)
    held_out, _ = turned("test", 500, seed=1)
    errors = {}
    for reference in ("relative", "absolute"):
        experiment = tiny(
            reference=reference,
            encoder="tiny",
            epochs=15,
            subset=None,
            batch_size=64,
            lr=0.003,
            area=[0.7, 1.0],
            projector=[64, 32],
            action_pairs=0,
            calibrate=False,
        )
        images = MemoryImages("turned digits", "train", pixels, labels)
        run = train(experiment, tmp_path / reference, images=images, quiet=True)
        errors[reference] = error_of_differences(duet.load(run), held_out)
    assert errors["relative"] < 15
    assert errors["absolute"] > 2 * errors["relative"]
    with pytest.raises(ValueError, match="use shift"):
        duet.load(tmp_path / "relative").embed(held_out[:2]).act(to=0.5)
